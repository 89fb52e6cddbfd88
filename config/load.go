package config

import (
	"strconv"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// Load gives the effective configuration: each key's flag if it was set, else its environment variable, else what the
// file says, else the default. A list is replaced as a whole.
//
// flags may be nil, and need not have a flag for every key. file is the path of a YAML file; if it is "", POSTRIDER_CONFIG
// names it, and else postrider.yaml in the working directory is read if it is there. environ is as os.Environ gives it.
//
// Unknown keys of the file, unknown POSTRIDER_ variables and values that do not parse are an *Error, with a
// line for each. What Load gives without an error still has to pass Validate.
func Load(flags *pflag.FlagSet, file string, environ []string) (Config, error) {
	if file == "" {
		file = variable(environ, configVariable)
	}
	if file == "" {
		return load(flags, DefaultFile, false, environ)
	}
	return load(flags, file, true, environ)
}

// load is Load with a path that is settled.
func load(flags *pflag.FlagSet, path string, named bool, environ []string) (Config, error) {
	fromFile, found := readFile(path, named)
	fromEnv, strangers := readEnviron(environ)
	found = append(found, strangers...)

	layers, err := layered(flags, fromFile, fromEnv)
	if err != nil {
		return Config{}, err
	}
	c := Config{origins: origins(flags, fromFile, fromEnv)}
	for _, k := range keys {
		if err := k.parse(&c, items(layers, k)); err != nil {
			found = append(found, c.fault(k.name, "%v", err))
		}
	}
	if err := found.err(); err != nil {
		return Config{}, err
	}
	c.loadKeyFile()
	return c, nil
}

// layered puts the layers into viper, which decides what wins. The environment goes in by hand, on top of the file in
// viper's one layer of configuration: viper's own way asks the process for its variables, so that a test could not give
// any and a misspelt one would pass in silence.
func layered(flags *pflag.FlagSet, fromFile, fromEnv map[string]setting) (*viper.Viper, error) {
	v := viper.New()
	for _, k := range keys {
		v.SetDefault(k.name, k.split(k.def))
		if flags == nil {
			continue
		}
		if flag := flags.Lookup(k.name); flag != nil {
			if err := v.BindPFlag(k.name, flag); err != nil {
				return nil, err
			}
		}
	}
	for _, layer := range []map[string]setting{fromFile, fromEnv} {
		values := make(map[string]any, len(layer))
		for name, setting := range layer {
			values[name] = setting.items
		}
		if err := v.MergeConfigMap(values); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// items gives the winning values of a key, split but not parsed.
func items(v *viper.Viper, k key) []string {
	switch value := v.Get(k.name).(type) {
	case []string: // of a default, the file or the environment
		return value
	case string: // of a flag
		return k.split(value)
	case bool: // of a flag, too
		return []string{strconv.FormatBool(value)}
	}
	return nil
}

// origins tells where the value of each key comes from that has not its default.
func origins(flags *pflag.FlagSet, fromFile, fromEnv map[string]setting) map[string]origin {
	from := make(map[string]origin, len(keys))
	for name, setting := range fromFile {
		from[name] = origin{SourceFile, setting.place}
	}
	for name, setting := range fromEnv {
		from[name] = origin{SourceEnv, setting.place}
	}
	for _, k := range keys {
		if flags != nil && flags.Changed(k.name) {
			from[k.name] = origin{SourceFlag, "--" + k.name}
		}
	}
	return from
}
