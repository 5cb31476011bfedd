package executor

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// commandExecutor runs a program without a shell. Exit status 0 is success, any other status is the failure
// EXIT_STATUS.
type commandExecutor struct{ cfg Config }

func (c *commandExecutor) Execute(ctx context.Context, t Task, h Host) (Result, error) {
	in, err := plan.DecodeCommand(t.Step.Inputs)
	if err != nil {
		return Result{}, invalidInputs(err)
	}
	dir, err := c.cfg.dir(t, in.Dir)
	if err != nil {
		return Result{}, err
	}
	t, remove, err := t.withParams()
	if err != nil {
		return Result{}, err
	}
	defer remove()
	t, removeSecrets, err := t.withSecrets()
	if err != nil {
		return Result{}, err
	}
	defer removeSecrets()
	program, err := c.cfg.program(t, h, in.Argv, c.cfg.env(t, in.Env), dir)
	if err != nil {
		return Result{}, err
	}
	p := process{runtime: c.cfg.Sandbox, program: program, grace: c.cfg.Grace, print: h.Print, exited: h.Exited,
		secrets: t.masker}
	exit, err := p.run(ctx)
	if err != nil {
		return Result{}, err
	}
	value := json.RawMessage(fmt.Sprintf(`{"exitStatus":%d}`, exit.Status))
	if f := boundFailure(exit, program.Limits, in.Argv[0]); f != nil {
		f.Value = value
		return Result{}, f
	}
	if exit.Status != 0 {
		return Result{}, &Failure{
			Code: CodeExitStatus, Message: endOf(in.Argv[0], exit.Status), Quote: true, Retryable: true,
			Category: run.CategoryUser, Value: value,
		}
	}
	return Result{Value: json.RawMessage(`{"exitStatus":0}`)}, nil
}

// endOf returns a sentence about the end of a program; a negative status means a signal.
func endOf(program string, status int) string {
	if status < 0 {
		return program + " was ended by a signal"
	}
	return fmt.Sprintf("%s ended with exit status %d", program, status)
}
