package config_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/server/config"
)

func TestSecret_IsNeverPrinted(t *testing.T) {
	t.Parallel()
	c := config.Config{WorkerToken: "very secret", ManualKeys: []config.Secret{"very secret"}}
	doc, err := json.Marshal(c.WorkerToken)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("settings", slog.Any("token", c.WorkerToken), slog.Any("keys",
		c.ManualKeys))
	for _, text := range []string{
		fmt.Sprint(c), fmt.Sprintf("%v", c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c), c.WorkerToken.String(),
		string(doc), log.String(),
	} {
		if strings.Contains(text, "very secret") {
			t.Errorf("%.300q shows a secret", text)
		}
	}
}

// Programs of steps inherit the environment of a worker, so no secret of a setting may stay in it.
func TestForgetEnvironment_RemovesEverySecret(t *testing.T) {
	secrets := []string{"DVT_STORE", "DVT_REDIS", "DVT_WORKER_TOKEN", "DVT_SIGN_IN_KEY", "DVT_MANUAL_KEYS",
		"DVT_TICKET_KEYS", "DVT_PAYLOAD_KEYS", "DVT_DISPATCH_KEYS", "DVT_SUBJECT_KEYS"}
	for _, name := range append(secrets, "DVT_LISTEN") {
		t.Setenv(name, "x")
	}
	config.ForgetEnvironment()
	for _, name := range secrets {
		if _, there := os.LookupEnv(name); there {
			t.Errorf("%s is still in the environment", name)
		}
	}
	if os.Getenv("DVT_LISTEN") != "x" {
		t.Error("DVT_LISTEN, which is no secret, is gone")
	}
}
