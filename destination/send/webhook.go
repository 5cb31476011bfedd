package send

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/destination"
)

// webhook sends each message as a CloudEvents 1.0 event in the structured JSON format, signed as the specification
// Standard Webhooks says.
type webhook struct {
	poster
	to     *url.URL
	keys   secrets
	source string
	now    func() time.Time
}

func newWebhook(cfg destination.Config, opt Options) (*webhook, error) {
	to, err := parseAddress(cfg.URL, httpSchemes(opt)...)
	if err != nil {
		return nil, err
	}
	keys, err := newSecrets(cfg, opt, 1, maxSecrets)
	if err != nil {
		return nil, err
	}
	return &webhook{poster: newPoster(cfg, opt), to: to, keys: keys, source: sourceOf(opt), now: time.Now}, nil
}

// sourceOf returns the source of messages: with the id it identifies an event, also among installations.
func sourceOf(opt Options) string {
	if opt.PublicAddress != "" {
		return opt.PublicAddress
	}
	return "urn:dvt"
}

func (w *webhook) Send(ctx context.Context, m destination.Message) error {
	body, err := json.Marshal(w.event(m))
	if err != nil {
		return rejected("the message is not valid JSON")
	}
	// The timestamp is that of the try: receivers refuse old ones, so that nobody can replay a recorded request.
	timestamp, id := strconv.FormatInt(w.now().Unix(), 10), webhookID(m.ID)
	secrets, err := w.keys.read()
	if err != nil {
		return err
	}
	signatures := make([]string, len(secrets))
	hidden := secrets
	for i, secret := range secrets {
		if signatures[i], err = sign(secret, id, timestamp, body); err != nil {
			return err
		}
		hidden = append(hidden, strings.TrimPrefix(secret, secretPrefix), signatures[i])
	}
	return w.post(ctx, w.to, http.Header{
		"Content-Type":      {"application/cloudevents+json; charset=utf-8"},
		"Webhook-Id":        {id},
		"Webhook-Timestamp": {timestamp},
		"Webhook-Signature": {strings.Join(signatures, " ")},
	}, body, hidden...)
}

func (w *webhook) Close() error {
	w.client.CloseIdleConnections()
	return nil
}

const secretPrefix = "whsec_"

// sign returns one signature of Standard Webhooks: v1, and the HMAC-SHA256 of id.timestamp.body.
func sign(secret, id, timestamp string, body []byte) (string, error) {
	const form = "destination: a secret that signs must be whsec_ and 24 to 64 bytes in base64"
	encoded, found := strings.CutPrefix(secret, secretPrefix)
	if !found {
		return "", errors.New(form)
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(key) < 24 || len(key) > 64 {
		return "", errors.New(form)
	}
	mac := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)), nil
}

// webhookID returns the id for the header. The specification forbids dots, because a dot separates the parts that are
// signed. An id with characters that do not fit is replaced by its hash, which is as stable.
func webhookID(id string) string {
	fits := id != "" && len(id) <= 128 && !strings.ContainsFunc(id, func(r rune) bool {
		return r <= ' ' || r > '~' || r == '.' || r == ','
	})
	if fits {
		return id
	}
	return digest(id)
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// cloudEvent is the envelope. Names of extensions are lower-case letters and digits, as the specification says, and
// sequence and partitionkey are extensions that it documents.
type cloudEvent struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Source          string          `json:"source"`
	Type            string          `json:"type"`
	Subject         string          `json:"subject,omitempty"`
	Time            string          `json:"time,omitempty"`
	DataContentType string          `json:"datacontenttype,omitempty"`
	TenantID        string          `json:"tenantid,omitempty"`
	ProjectID       string          `json:"projectid,omitempty"`
	EnvironmentID   string          `json:"environmentid,omitempty"`
	PlanID          string          `json:"planid,omitempty"`
	RunID           string          `json:"runid,omitempty"`
	PartitionKey    string          `json:"partitionkey,omitempty"`
	Sequence        string          `json:"sequence,omitempty"`
	AlertKey        string          `json:"alertkey,omitempty"`
	AlertCode       string          `json:"alertcode,omitempty"`
	AlertLevel      string          `json:"alertlevel,omitempty"`
	Replayed        bool            `json:"replayed,omitempty"`
	Data            json.RawMessage `json:"data,omitempty"`
}

func (w *webhook) event(m destination.Message) cloudEvent {
	e := cloudEvent{
		SpecVersion: "1.0", ID: m.ID, Source: w.source, Type: "dev.dvt.run." + m.Type,
		TenantID: m.TenantID, ProjectID: m.ProjectID, EnvironmentID: m.EnvironmentID, PlanID: m.PlanID,
		RunID: m.RunID, AlertLevel: m.Level, Replayed: m.Replayed, Data: m.Data,
	}
	if len(m.Data) > 0 {
		e.DataContentType = "application/json"
	}
	if !m.At.IsZero() {
		e.Time = m.At.UTC().Format(time.RFC3339Nano)
	}
	if m.RunID != "" {
		e.Subject, e.PartitionKey = "runs/"+m.RunID, m.RunID
	}
	if m.Seq > 0 {
		// The extension is a text whose order is that of the numbers.
		e.Sequence = fmt.Sprintf("%020d", m.Seq)
	}
	if m.Topic == destination.Audit {
		e.Type, e.Subject, e.PartitionKey = "dev.dvt.audit."+m.Type, "audit/"+m.TenantID, "audit/"+m.TenantID
	}
	if m.Topic == destination.Lineage {
		e.Type = "dev.dvt.lineage." + m.Type
	}
	if m.Topic == destination.Alerts {
		e.Type = "dev.dvt.alert." + m.Type
		if m.Alert != nil {
			e.Subject, e.PartitionKey = "alerts/"+m.Alert.Key, m.Alert.Key
			e.AlertKey, e.AlertCode = m.Alert.Key, m.Alert.Code
		}
	}
	return e
}
