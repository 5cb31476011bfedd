package temporal

// What tests outside the package need to replay histories.
var RunWorkflow = runWorkflow

const WorkflowName = workflowName
