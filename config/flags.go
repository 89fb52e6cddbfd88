package config

import "github.com/spf13/pflag"

// AddFlags adds a flag for each key, named as the key is: --http.addr. A list's flag may be given several times.
func AddFlags(flags *pflag.FlagSet) {
	for _, k := range keys {
		usage := k.usage
		if k.secret {
			usage += " (other users see flags: rather use " + k.env() + ")"
		}
		if k.arg == boolKind.arg {
			flags.Bool(k.name, k.def == "true", usage)
			continue
		}
		flags.Var(&flagValue{text: k.def, arg: k.arg, list: k.list}, k.name, usage)
	}
}

// flagValue keeps a flag's text as it was written. The parsing is left to Load, so that a bad flag is reported as a bad
// variable is, together with all other faults and, for a secret, without its value (pflag would print it).
type flagValue struct {
	text      string
	arg       string
	list, set bool
}

// Set takes the text of the flag. A list's flag that comes again adds to what came before.
func (f *flagValue) Set(text string) error {
	if f.list && f.set {
		text = f.text + " " + text // every list splits at blanks
	}
	f.text, f.set = text, true
	return nil
}

// String is the text as it stands.
func (f *flagValue) String() string { return f.text }

// Type is what --help calls the value. It is none of the names for which viper would convert the text.
func (f *flagValue) Type() string { return f.arg }
