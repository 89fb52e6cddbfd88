package lint

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

const testKey = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=" // 32 bytes

// composeEnv is the file .env that the top of docker-compose.yml has people make.
var composeEnv = []string{"POSTGRES_PASSWORD=0123ab", "APP_DATABASE_PASSWORD=0123ab", "POSTRIDER_BOOTSTRAP_ADMIN_KEY=0123456789ab", "POSTRIDER_SECRETS_KEYS=" + testKey}

func compose(t *testing.T, env []string) (*types.Project, error) {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{filepath.Join(root, "docker-compose.yml")}, cli.WithEnv(env))
	if err != nil {
		t.Fatal(err)
	}
	return options.LoadProject(t.Context())
}

func TestComposeStartsAllOfIt(t *testing.T) {
	t.Parallel()
	p, err := compose(t, composeEnv)
	if err != nil {
		t.Fatal(err)
	}
	var lines [][]string
	for name, s := range p.Services {
		if s.Deploy == nil || s.Deploy.Resources.Limits == nil || s.Deploy.Resources.Limits.MemoryBytes == 0 {
			t.Errorf("%s may take all memory", name)
		}
		if name == "postgres" {
			continue
		}
		environ := map[string]string{}
		for variable, value := range s.Environment {
			environ[variable] = *value
		}
		mustStart(t, s.Command, environ)
		lines = append(lines, s.Command)
		if s.Image != "postrider" || !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s: %+v", name, s)
		}
		if roles(s.Command) == nil {
			continue
		}
		if grace := s.StopGracePeriod; grace == nil || time.Duration(*grace) < time.Minute {
			t.Errorf("%s is given no minute to stop", name)
		}
		if s.HealthCheck == nil || !slices.Equal(s.HealthCheck.Test, []string{"CMD", "/usr/local/bin/postrider", "health"}) || s.Restart == "" {
			t.Errorf("%s: nobody asks how it is", name)
		}
		if d := s.DependsOn; d["migrate"].Condition != types.ServiceConditionCompletedSuccessfully || d["postgres"].Condition != types.ServiceConditionHealthy {
			t.Errorf("%s starts without its schema: %+v", name, d)
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s is open to the network: %+v", name, port)
			}
		}
	}
	mustHaveEveryRole(t, lines)
	dispatcher := p.Services["dispatcher"]
	if n := dispatcher.GetScale(); n != 2 {
		t.Errorf("%d dispatchers", n)
	}
	for name, s := range p.Secrets {
		if s.Environment == "" {
			t.Errorf("the secret %s: %+v", name, s)
		}
	}
}

// Each variable that it cannot do without is one that its top has people make, and missing it says where to look.
func TestComposeSaysWhichVariableIsMissing(t *testing.T) {
	t.Parallel()
	text := string(read(t, "docker-compose.yml"))
	top, _, _ := strings.Cut(text, "\nname:")
	required := regexp.MustCompile(`\$\{(\w+):\?`).FindAllStringSubmatch(text, -1)
	if len(required) == 0 {
		t.Fatal("nothing is required any more")
	}
	for _, match := range required {
		if !strings.Contains(top, match[1]) {
			t.Errorf("nobody is told to make %s", match[1])
		}
		left := slices.DeleteFunc(slices.Clone(composeEnv), func(e string) bool { return strings.HasPrefix(e, match[1]+"=") })
		if _, err := compose(t, left); err == nil || !strings.Contains(err.Error(), match[1]) || !strings.Contains(err.Error(), "see the top of docker-compose.yml") {
			t.Errorf("without %s: %v", match[1], err)
		}
	}
}
