package control_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

func TestTranslate_ErrorsOfTheBucketHaveTheirCodes(t *testing.T) {
	t.Parallel()
	for cause, want := range map[error]run.Code{
		artifact.ErrTorn: run.CodeArtifactTorn, artifact.ErrUnavailable: run.CodeUnavailable,
		store.ErrArchiveDamaged: run.CodeArtifactTorn,
	} {
		var got *control.Error
		if err := control.Translate(fmt.Errorf("read: %w", cause)); !errors.As(err, &got) || got.Code != want {
			t.Errorf("%v is %v, want the code %s", cause, err, want)
		}
	}
}
