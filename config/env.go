package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// envPrefix is what the name of every environment variable of Postrider begins with.
const envPrefix = "POSTRIDER_"

// configVariable names the file, as --config does.
const configVariable = "POSTRIDER_CONFIG"

// otherVariables have the prefix and are no keys: they belong to the commands that call a server.
var otherVariables = []string{"POSTRIDER_URL", "POSTRIDER_API_KEY", "POSTRIDER_LISTEN_SECRET", "POSTRIDER_VERIFY_SECRET", configVariable}

// testPrefix is for the tests' own variables.
const testPrefix = envPrefix + "TEST_"

// serviceVariable is what Kubernetes and Docker links put into the environment of whoever runs beside a service that is
// called postrider or postrider-something. Refusing those would stop the very deployments that named it well.
// https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
var serviceVariable = regexp.MustCompile(
	`^POSTRIDER_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)=` +
		`|^POSTRIDER_([A-Z0-9_]+_)?PORT=(tcp|udp|sctp)://`)

// readEnviron takes the settings out of an environment as os.Environ gives it. A variable that is empty counts as not
// set, for that is what an unset variable of a compose file or a shell script turns into. If one is there twice, the last counts.
func readEnviron(environ []string) (map[string]setting, faults) {
	byVariable := make(map[string]key, len(keys))
	for _, k := range keys {
		byVariable[k.env()] = k
	}
	settings, strangers := map[string]setting{}, map[string]bool{}
	for _, entry := range environ {
		variable, value, _ := strings.Cut(entry, "=")
		k, known := byVariable[variable]
		switch {
		case known && value != "":
			settings[k.name] = setting{k.split(value), variable}
		case known:
			delete(settings, k.name)
		case strings.HasPrefix(variable, envPrefix) && !isForeign(variable, entry):
			strangers[variable] = true
		}
	}
	var found faults
	variables := slices.Collect(maps.Keys(byVariable))
	slices.Sort(variables)
	for _, variable := range slices.Sorted(maps.Keys(strangers)) {
		found = append(found, Fault{Key: variable, Detail: unknown("variable", variable, variables), From: "the environment"})
	}
	return settings, found
}

// isForeign reports whether a variable with the prefix is not meant for this package.
func isForeign(variable, entry string) bool {
	return slices.Contains(otherVariables, variable) || strings.HasPrefix(variable, testPrefix) || serviceVariable.MatchString(entry)
}

// variable gives the value of an environment variable, "" if it is not set.
func variable(environ []string, name string) (value string) {
	for _, entry := range environ {
		if text, ok := strings.CutPrefix(entry, name+"="); ok {
			value = text
		}
	}
	return value
}

// unknown says what may have been meant by a name that nothing has.
func unknown(what, name string, known []string) string {
	if meant, ok := suggest(name, known); ok {
		return "is an unknown " + what + ", did you mean " + meant + "?"
	}
	return "is an unknown " + what + ", postrider.example.yaml has all keys"
}

// names are all keys and sections.
func names() []string {
	var all []string
	for _, k := range keys {
		section, _, _ := strings.Cut(k.name, ".")
		if !slices.Contains(all, section) {
			all = append(all, section)
		}
		all = append(all, k.name)
	}
	return all
}
