package temporal

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"

	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/grpc/grpclog"
)

// sdkLogger writes the lines of the SDK with the keys of dvt's logs. The SDK reports every execution that returns an
// error as an error of the worker. A step that was stopped as requested is no fault of dvt, and the log of the run has
// it, so its line has the level DEBUG.
//
// While Temporal is down, each poller reports the same error every few seconds; the handler of the process folds them.
type sdkLogger struct{ to sdklog.Logger }

func newSDKLogger(log *slog.Logger) sdkLogger {
	return sdkLogger{sdklog.Skip(sdklog.NewStructuredLogger(log), 1)}
}

// Debug implements log.Logger.
func (l sdkLogger) Debug(msg string, keyvals ...any) { l.to.Debug(msg, ownKeys(keyvals)...) }

// Info implements log.Logger.
func (l sdkLogger) Info(msg string, keyvals ...any) { l.to.Info(msg, ownKeys(keyvals)...) }

// Warn implements log.Logger.
func (l sdkLogger) Warn(msg string, keyvals ...any) { l.to.Warn(msg, ownKeys(keyvals)...) }

// Error implements log.Logger.
func (l sdkLogger) Error(msg string, keyvals ...any) {
	if err := errorIn(keyvals); err != nil && temporal.IsCanceledError(err) {
		l.to.Debug(msg, ownKeys(keyvals)...)
		return
	}
	l.to.Error(msg, ownKeys(keyvals)...)
}

// logGRPC makes gRPC, which has one logger for the process, write its errors to log. Its warnings are about connections
// that it makes again, so they are left out.
func logGRPC(log *slog.Logger) {
	onceGRPC.Do(func() { grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, grpcErrors{log})) })
}

var onceGRPC sync.Once //nolint:gochecknoglobals // the library has one logger for the process

type grpcErrors struct{ to *slog.Logger }

// Write implements io.Writer.
func (l grpcErrors) Write(line []byte) (int, error) {
	l.to.Error("gRPC reported an error", slog.String("error", string(bytes.TrimSpace(line))))
	return len(line), nil
}

func errorIn(keyvals []any) error {
	for _, v := range keyvals {
		if err, ok := v.(error); ok {
			return err
		}
	}
	return nil
}

// ownNames are dvt's names of the SDK's keys. WorkflowID and ActivityID become several keys.
var ownNames = map[string]string{ //nolint:gochecknoglobals // a constant table
	"RunID": "engineRunId", "Error": "error", "Namespace": "namespace", "TaskQueue": "queue", "Attempt": "try",
	"WorkerID": "worker", "WorkerType": "workerType", "WorkflowType": "workflow", "ActivityType": "activity",
	"StackTrace": "stack", "PanicError": "panic", "PanicStack": "stack", "EventID": "eventId",
}

// ownKeys returns the pairs of a line with dvt's keys. The workflow's id names the tenant and the run. The activity's
// id names the step and its dispatch, as the logical attempt and the ordinal. Of the first dispatch the SDK's attempt
// is the engine attempt. Later dispatches continue to count engine attempts that the SDK does not know.
func ownKeys(keyvals []any) []any {
	out := make([]any, 0, len(keyvals)+4)
	logical, try := "", ""
	for i := 0; i+1 < len(keyvals); i += 2 {
		key, value := fmt.Sprint(keyvals[i]), keyvals[i+1]
		text, _ := value.(string)
		switch key {
		case "WorkflowID":
			if id, ok := runOf(text); ok {
				out = append(out, "runId", id.RunID, "tenantId", id.TenantID)
				continue
			}
			key = "workflowId"
		case "ActivityID":
			if step, dispatch, ok := strings.Cut(text, "/"); ok {
				out = append(out, "stepId", step, "dispatch", dispatch)
				if first, ok := strings.CutSuffix(dispatch, ".1"); ok {
					logical = first
				}
				continue
			}
			key = "activityId"
		case "Attempt":
			try = fmt.Sprint(value)
		}
		if own := ownNames[key]; own != "" {
			key = own
		}
		out = append(out, key, value)
	}
	if logical != "" && try != "" {
		out = append(out, "attemptId", logical+"."+try)
	}
	return out
}
