package integrations

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rhysd/actionlint"
	"github.com/xeipuuv/gojsonschema"
	lua "github.com/yuin/gopher-lua"
	"gopkg.in/yaml.v3"
	luajson "layeh.com/gopher-json"
)

const (
	k9s    = "github.com/derailed/k9s@v0.50.16"
	k9sSum = "h1:djzWog8EYth+S6oLE1YjsC4BqMfo2on+mAv1FU/YoZA="
)

func read(t *testing.T, path string) string {
	text, err := os.ReadFile(filepath.Join("..", "..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// k9s' own schema accepts the plugin.
func TestK9sAcceptsThePlugin(t *testing.T) {
	// Its source, and not the module: nothing of it is compiled.
	downloaded, err := exec.Command("go", "mod", "download", "-json", k9s).Output()
	var module struct{ Dir, Sum string }
	if err == nil {
		err = json.Unmarshal(downloaded, &module)
	}
	if err != nil || module.Sum != k9sSum {
		t.Fatal(err, module)
	}
	schema, err := os.ReadFile(filepath.Join(module.Dir, "internal/config/json/schemas/plugins.json"))
	if err != nil {
		t.Fatal(err)
	}
	var plugins any
	if err := yaml.Unmarshal([]byte(read(t, "deploy/k9s/plugins.yaml")), &plugins); err != nil {
		t.Fatal(err)
	}
	result, err := gojsonschema.Validate(gojsonschema.NewBytesLoader(schema), gojsonschema.NewGoLoader(plugins))
	if err != nil || !result.Valid() {
		t.Fatal(err, result.Errors())
	}
}

// The script gets the names as arguments: none becomes a part of it, whatever characters it has.
func TestThePluginPassesNamesOn(t *testing.T) {
	var file struct {
		Plugins map[string]struct {
			Command string
			Args    []string
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "deploy/k9s/plugins.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	plugin := file.Plugins["orchestr-explain"]
	folder := t.TempDir()
	printer := "#!/bin/sh\nfor word in \"$@\"; do echo \"<$word>\"; done\n"
	if err := os.WriteFile(filepath.Join(folder, "orchestr"), []byte(printer), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "less"), []byte("#!/bin/sh\ncat\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{
		"NAMESPACE": "shop", "CONTEXT": "prod; echo 'x' $(id)", "RESOURCE_NAME": "pods", "NAME": "cart-1",
	}
	// As k9s substitutes them: what it does not know stays.
	known := regexp.MustCompile(`\$(\w+)`)
	args := make([]string, 0, len(plugin.Args))
	for _, arg := range plugin.Args {
		args = append(args, known.ReplaceAllStringFunc(arg, func(name string) string {
			if value, ok := values[name[1:]]; ok {
				return value
			}
			return name
		}))
	}
	command := exec.Command(plugin.Command, args...)
	command.Env = append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"))
	output, err := command.CombinedOutput()
	expected := "<explain>\n<--namespace=shop>\n<--context=prod; echo 'x' $(id)>\n<pods/cart-1>\n"
	if err != nil || string(output) != expected {
		t.Fatalf("%v: %s", err, output)
	}
}

// The script runs in the Lua of Argo CD, with the only library that Argo CD opens for it.
func TestArgoCDReadsTheHealth(t *testing.T) {
	conditions := func(ready, healthy string) string {
		return `"conditions": [{"type": "Ready", "status": "` + ready + `", "message": "r"}, {"type": "PodsHealthy", "status": "` +
			healthy + `", "message": "p"}]`
	}
	for name, test := range map[string]struct{ object, status, message string }{
		"new":       {`{"metadata": {"generation": 1}}`, "Progressing", "The operator has not checked the pods yet"},
		"paused":    {`{"metadata": {"generation": 1}, "spec": {"alerts": {"checkRunningPods": false}}}`, "Suspended", "The object is paused"},
		"healthy":   {`{"metadata": {"generation": 1}, "status": {"observedGeneration": 1, ` + conditions("True", "True") + `}}`, "Healthy", "p"},
		"unhealthy": {`{"metadata": {"generation": 1}, "status": {"observedGeneration": 1, ` + conditions("True", "False") + `}}`, "Degraded", "p"},
		"unknown":   {`{"metadata": {"generation": 1}, "status": {"observedGeneration": 1, ` + conditions("True", "Unknown") + `}}`, "Progressing", "p"},
		"not ready": {`{"metadata": {"generation": 1}, "status": {"observedGeneration": 1, ` + conditions("False", "Unknown") + `}}`, "Degraded", "r"},
		"outdated":  {`{"metadata": {"generation": 2}, "status": {"observedGeneration": 1, ` + conditions("True", "True") + `}}`, "Progressing", "The operator has not seen the present spec yet"},
	} {
		t.Run(name, func(t *testing.T) {
			state := lua.NewState(lua.Options{SkipOpenLibs: true})
			defer state.Close()
			for _, library := range []struct {
				name string
				open lua.LGFunction
			}{{lua.BaseLibName, lua.OpenBase}, {lua.TabLibName, lua.OpenTable}} {
				if err := state.CallByParam(lua.P{Fn: state.NewFunction(library.open), Protect: true}, lua.LString(library.name)); err != nil {
					t.Fatal(err)
				}
			}
			object, err := luajson.Decode(state, []byte(test.object))
			if err != nil {
				t.Fatal(err)
			}
			state.SetGlobal("obj", object)
			if err := state.DoString(read(t, "deploy/argocd/health.lua")); err != nil {
				t.Fatal(err)
			}
			encoded, err := luajson.Encode(state.Get(-1))
			if err != nil {
				t.Fatal(err)
			}
			var health struct{ Status, Message string }
			if err := json.Unmarshal(encoded, &health); err != nil {
				t.Fatal(err)
			}
			if health.Status != test.status || health.Message != test.message {
				t.Fatalf("%+v", health)
			}
		})
	}
}

// The workflow of docs/pipelines.md has no error that actionlint knows.
func TestTheWorkflowIsValid(t *testing.T) {
	page := read(t, "docs/pipelines.md")
	_, workflow, found := strings.Cut(page, "```yaml\n# .github/workflows/deploy.yaml\n")
	workflow, _, _ = strings.Cut(workflow, "```")
	if !found {
		t.Fatal("docs/pipelines.md has no workflow")
	}
	linter, err := actionlint.NewLinter(&strings.Builder{}, &actionlint.LinterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	problems, err := linter.Lint("deploy.yaml", []byte(workflow), nil)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
}
