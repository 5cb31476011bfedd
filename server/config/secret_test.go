package config_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
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
