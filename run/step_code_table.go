package run

// StepCodeTable returns the codes that the executors of dvt write into failed attempts, beside those of CodeTable, by
// name. Executors of others may write further codes.
func StepCodeTable() []CodeInfo {
	return []CodeInfo{
		{"ADDRESS_REFUSED", 0, false, "The step called an address that the worker does not permit.",
			"Use a permitted address, or ask the operators of the workers to permit it."},
		{"DBT_FAILED", 0, true, "dbt ended with status 1: a model, a test or a seed failed.",
			"Open the Models tab of the step, or its log: it has the failed nodes with their error. Fix them, then retry " +
				"the step."},
		{"DBT_NODES_MISSING", 0, true, "dbt did not run a node that was retried: the project no longer has it, or has disabled it.",
			"Retry the whole step."},
		{"DBT_NODES_OPEN", 0, true, "The retried nodes ended well, but other nodes of the step did not.",
			"Retry the failed nodes of the step."},
		{"DBT_NO_STATE", 0, false, "The step runs only what was modified, and there is no earlier run to compare with.",
			"Run the step once in full: without `state`, or with `otherwise: FULL`. Then start a new run."},
		{"DBT_USAGE", 0, false, "dbt ended with status 2: its arguments or the project are wrong, or it crashed.",
			"Read the log, correct the project or the inputs of the step, then start a new run or retry with force."},
		{"DIR_NOT_ALLOWED", 0, false, "The step names a directory outside of those that the worker allows.",
			"Use a directory within the project, or ask the operators of the workers to allow it."},
		{"DIR_NOT_FOUND", 0, true, "The directory of the step does not exist on the worker.",
			"Check the path, and the step that creates the directory; then retry the step."},
		{"EXIT_STATUS", 0, true, "The program of the step ended with a status other than 0.",
			"Read the log at the line that names the error. Remove the cause, then retry the step."},
		{"HTTP_STATUS", 0, true, "The called service answered with an unexpected status.",
			"Read the message for the status. When the service is well again, retry the step."},
		{"HTTP_TRANSPORT", 0, true, "The called service did not answer.",
			"Check the address and the service, then retry the step."},
		{"INPUTS_INVALID", 0, false, "The inputs of the step do not fit its type.",
			"Correct the inputs in the plan and start a new run."},
		{"PROGRAM_NOT_FOUND", 0, false, "The program of the step does not exist on the worker, or cannot be started.",
			"Check the name, or ask the operators of the workers to install it."},
		{"TYPE_UNSUPPORTED", 0, false, "The worker has no executor for the type of the step.",
			"Ask the operators of the workers, or use another type."},
		{"UNKNOWN", 0, true, "The step failed in a way that its executor does not know.",
			"Read the message and the log, then retry the step."},
	}
}
