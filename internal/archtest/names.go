package archtest

import (
	"path/filepath"
	"regexp"
	"strings"
)

// Names are the things of the product that documents name: by kind, then by name. The kinds are type, field, query,
// mutation, subscription, setting, command, metric, address, code, event and step.
type Names map[string]map[string]bool

var (
	schemaText  = regexp.MustCompile(`(?s)"""(.*?)"""|"[^"\n]*"|#[^\n]*`)
	schemaType  = regexp.MustCompile(`(?s)\b(?:extend\s+)?(?:type|input|interface|enum)\s+(\w+)[^{]*\{(.*?)\n\}`)
	schemaArgs  = regexp.MustCompile(`(?s)\([^()]*\)`)
	schemaField = regexp.MustCompile(`\b(\w+)\s*:`)
	settingName = regexp.MustCompile("koanf:\"([a-z-]+)\"")
	settingList = regexp.MustCompile("strings\\.Fields\\(`([a-z-\\s]+)`")
	commandName = regexp.MustCompile(`(?m)^##+ (dvt [a-z -]+)$`)
	metricName  = regexp.MustCompile(`"((?:[a-z]+_)+[a-z]+)"`)
	addressName = regexp.MustCompile(`\.Handle(?:Func)?\("(?:[A-Z]+ )?(/[^"]*)"`)
	codeName    = regexp.MustCompile(`= "([A-Z][A-Z_]+)"`)
	eventName   = regexp.MustCompile(`EventType = "(\w+)"`)
	stepName    = regexp.MustCompile(`StepType = "(\w+)"`)
	sourceFile  = regexp.MustCompile(`^(?:server|run|plan|live|projector|store|control|graph|engine)/.*\.go$`)
)

// LoadNames reads the names from the schema, the settings, the page of the commands and the sources among files.
func LoadNames(root string, files []string) (Names, error) {
	names := Names{}
	for _, kind := range strings.Fields(
		"type field query mutation subscription setting command metric address code event step") {
		names[kind] = map[string]bool{}
	}
	for _, file := range files {
		product := sourceFile.MatchString(file) && !strings.HasSuffix(file, "_test.go")
		if !product && file != "schema.graphqls" && file != "docs/cli.md" {
			continue
		}
		text, _, err := ReadText(root, file)
		if err != nil {
			return nil, err
		}
		switch file {
		case "schema.graphqls":
			names.addSchema(text)
		case "docs/cli.md":
			names.add("command", commandName, text)
		default:
			names.add("metric", metricName, text)
			names.add("address", addressName, text)
			names.add("code", codeName, text)
			names.add("event", eventName, text)
			names.add("step", stepName, text)
			if filepath.Dir(file) == "server/config" {
				names.add("setting", settingName, text)
				for _, m := range settingList.FindAllStringSubmatch(text, -1) {
					for key := range strings.FieldsSeq(m[1]) {
						names["setting"][key] = true
					}
				}
			}
		}
	}
	return names, nil
}

// Has reports whether the product has a thing of that kind and name.
func (n Names) Has(kind, name string) bool { return n[kind][name] }

// Split returns the kind and the name of an item such as "field Run.cost"; false when its first word is no kind.
func (n Names) Split(item string) (kind, name string, ok bool) {
	kind, name, ok = strings.Cut(item, " ")
	return kind, name, ok && n[kind] != nil
}

func (n Names) add(kind string, pattern *regexp.Regexp, text string) {
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		n[kind][m[1]] = true
	}
}

func (n Names) addSchema(text string) {
	bare := schemaText.ReplaceAllString(text, "")
	for _, m := range schemaType.FindAllStringSubmatch(bare, -1) {
		name := m[1]
		n["type"][name] = true
		for _, f := range schemaField.FindAllStringSubmatch(schemaArgs.ReplaceAllString(m[2], ""), -1) {
			n["field"][name+"."+f[1]] = true
			if root := strings.ToLower(name); name == "Query" || name == "Mutation" || name == "Subscription" {
				n[root][f[1]] = true
			}
		}
	}
}
