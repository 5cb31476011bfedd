package providers

import (
	"net"
	"net/url"
	"regexp"
	"slices"

	"github.com/dvt-engine/dvt/secret"
	"github.com/dvt-engine/dvt/secret/aws"
	"github.com/dvt-engine/dvt/secret/azure"
	"github.com/dvt-engine/dvt/secret/file"
	"github.com/dvt-engine/dvt/secret/gcp"
	"github.com/dvt-engine/dvt/secret/vault"
)

// kinds are the values of kind, with the fields that belong to each of them besides those of every provider.
var kinds = map[string][]string{
	"file":  {"file"},
	"vault": {"address", "caFile", "namespace", "mount", "engine", "auth"},
	"aws":   {"address", "caFile", "region"},
	"gcp":   {"address", "caFile", "project", "location"},
	"azure": {"address", "caFile", "audience", "authority"},
}

// identityFiles are the variables that name files with the identity of a worker, by kind.
var identityFiles = map[string][]string{
	"aws": {"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE",
		"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"},
	"gcp":   {"GOOGLE_APPLICATION_CREDENTIALS"},
	"azure": {"AZURE_FEDERATED_TOKEN_FILE", "AZURE_CLIENT_CERTIFICATE_PATH"},
}

// report reports what is wrong with a field of an entry.
type report func(field, format string, args ...any)

// open checks what belongs to the entry's kind, and returns its provider. It completes the source.
func (e entry) open(s *secret.Source, bad report) secret.Provider {
	fields, known := kinds[e.Kind]
	if !known {
		bad("kind", "write vault (OpenBao and HashiCorp Vault), aws, gcp, azure or file")
		return nil
	}
	for _, f := range e.set() {
		if !slices.Contains(fields, f) {
			bad(f, "leave it out: providers of kind %s have no such field", e.Kind)
		}
	}
	if e.Kind != "file" && e.CacheTTL == nil {
		s.CacheTTL = defaultCache
	}
	switch e.Kind {
	case "file":
		if e.File == "" {
			bad("file", "name the file that has the secrets")
		}
		return file.New(e.File)
	case "aws":
		return e.aws(bad)
	case "gcp":
		return e.gcp(bad)
	case "azure":
		return e.azure(bad)
	}
	return e.vault(s, bad)
}

// set returns the names of the fields of kinds that the entry has.
func (e entry) set() []string {
	var out []string
	for name, value := range map[string]string{"file": e.File, "address": e.Address, "caFile": e.CAFile,
		"namespace": e.Namespace, "mount": e.Mount, "engine": e.Engine, "region": e.Region, "project": e.Project,
		"location": e.Location, "audience": e.Audience, "authority": e.Authority,
		"auth": string(e.Auth.Method) + e.Auth.Mount + e.Auth.Role + e.Auth.File} {
		if value != "" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func (e entry) vault(s *secret.Source, bad report) secret.Provider {
	if s.Leases = e.Engine == dynamic; !s.Leases && e.Engine != "" && e.Engine != "kv" {
		bad("engine", "write kv or dynamic")
	}
	checkAddress(e.Address, "address", bad)
	switch a := e.Auth; a.Method {
	case vault.Token:
	case vault.AppRole, vault.JWT, vault.Kubernetes:
		if a.Role == "" {
			bad("auth.role", "name the role (of approle: its role id)")
		}
	default:
		bad("auth.method", "write approle, jwt, kubernetes or token")
	}
	if e.Auth.File == "" {
		bad("auth.file", "name the file that has the credential of the worker")
	}
	p, err := vault.New(vault.Config{Address: e.Address, CAFile: e.CAFile, Namespace: e.Namespace, Mount: e.Mount,
		Dynamic: s.Leases, Method: e.Auth.Method, AuthMount: e.Auth.Mount, Role: e.Auth.Role, File: e.Auth.File})
	if err != nil {
		bad("caFile", "%v", err)
	}
	return p
}

var (
	regionRule  = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)
	projectRule = regexp.MustCompile(`^[a-z0-9.:-]{1,63}$`)
)

func (e entry) aws(bad report) secret.Provider {
	if e.Address != "" {
		checkAddress(e.Address, "address", bad)
	}
	if e.Region != "" && !regionRule.MatchString(e.Region) {
		bad("region", "write the name of a region, such as eu-central-1")
		return nil
	}
	p, err := aws.New(aws.Config{Region: e.Region, Endpoint: e.Address, CAFile: e.CAFile})
	if err != nil {
		bad("kind", "%v", err)
	}
	return p
}

func (e entry) gcp(bad report) secret.Provider {
	if e.Address != "" {
		checkAddress(e.Address, "address", bad)
	}
	if !projectRule.MatchString(e.Project) {
		bad("project", "write the id or the number of the project")
	}
	if e.Location != "" && !regionRule.MatchString(e.Location) {
		bad("location", "write the location of regional secrets, such as europe-west3")
	}
	p, err := gcp.New(gcp.Config{Project: e.Project, Location: e.Location, Endpoint: e.Address, CAFile: e.CAFile})
	if err != nil {
		bad("caFile", "%v", err)
	}
	return p
}

func (e entry) azure(bad report) secret.Provider {
	checkAddress(e.Address, "address", bad)
	if e.Authority != "" {
		checkAddress(e.Authority, "authority", bad)
	}
	if e.Audience != "" {
		checkAddress(e.Audience, "audience", bad)
	}
	p, err := azure.New(azure.Config{Address: e.Address, Audience: e.Audience, Authority: e.Authority, CAFile: e.CAFile})
	if err != nil {
		bad("kind", "%v", err)
	}
	return p
}

// checkAddress reports a text that is no address, and an address over which a secret would cross a network unencrypted.
func checkAddress(address, field string, bad report) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		u.Scheme != "https" && u.Scheme != "http":
		bad(field, "write https://HOST or https://HOST:PORT")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		bad(field, "write https: a secret would cross the network unencrypted")
	}
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
