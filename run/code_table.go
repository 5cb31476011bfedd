package run

// CodeInfo documents a code for those who call the API.
type CodeInfo struct {
	Code Code
	// HTTPStatus is what plain HTTP answers and `extensions.httpStatus` say; a
	// GraphQL answer itself is 200 (O12). 0 is a code that never is the answer to
	// a request: it stands in events, receipts, anomalies or closed streams.
	HTTPStatus int
	// Retry says that the same call may succeed later, unchanged.
	Retry    bool
	Meaning  string
	WhatToDo string
}

// CodeTable returns every code once, in the order of the constants.
func CodeTable() []CodeInfo {
	return []CodeInfo{
		{CodeBadInput, 400, false, "An argument is missing or malformed.", "Correct the arguments that `violations` names."},
		{CodeUnauthenticated, 401, false, "The call carries no valid token.", "Send a valid bearer token."},
		{CodeForbidden, 403, false, "Your role does not allow this.", "Ask someone with the role that `denial` names."},
		{CodeNotFound, 404, false, "There is no such thing, or it is not yours.", "Check the id and the tenant of your token."},
		{CodePlanInvalid, 400, false, "The plan breaks the rules of plans.", "Correct every place that `violations` lists and submit it again."},
		{CodePlanSchema, 400, false, "The plan's schemaVersion is not supported.", "Write the plan in a supported version."},
		{CodePlanTooLarge, 413, false, "The plan document is larger than allowed.", "Move large inputs out of the plan or split it."},
		{CodePlanTooManySteps, 400, false, "The plan has more steps than the engine takes.", "Split the plan."},
		{CodePlanHashMismatch, 400, false, "The document at the plan's address is not the one referred to.", "Publish the document again or correct its sha256."},
		{CodePlanFetchFailed, 502, true, "The plan could not be fetched.", "Check that the address is reachable and allowed, then start a new run."},
		{CodeRequestConflict, 409, false, "This request id was used with other arguments.", "Use a new id for a new request."},
		{CodeRunTerminal, 409, false, "The run has ended; that is final.", "Start a new run."},
		{CodeRunFinalizing, 409, false, "The run is ending already.", "Wait for its end."},
		{CodeInvalidRunState, 409, false, "The run's status does not allow this.", "Look at the status; try again when it has changed."},
		{CodeRunMoved, 409, false, "What you decided on has changed since `expectedRunSeq`.", "Look at the current state in `current` and decide again."},
		{CodeStepNotFound, 404, false, "The run has no such step.", "Check the step's id in the list of steps."},
		{CodeStepNotFailed, 409, false, "Only a FAILED step can be retried.", "Look at the step's latest attempt."},
		{CodeStepNotSkippable, 409, false, "Only a PENDING or FAILED step can be skipped.", "Wait for the attempt to end."},
		{CodeStepTerminal, 409, false, "The step is over and will not run again.", "Change a step that has not run, or start a new run."},
		{CodeStepNotStarted, 0, false, "A step was to end that had never begun: the gate was closed before it began.", "Nothing; the step is begun again when the gate opens."},
		{CodeRetryDenied, 409, false, "The retry policy does not allow another attempt.", "Remove the cause of the failure, then retry with force."},
		{CodeSignalConflict, 409, false, "This signal id was used for another signal.", "Use a new id for a new signal."},
		{CodeSignalTooLarge, 413, false, "The signal's payload is larger than allowed.", "Shorten it or refer to an artifact."},
		{CodeSignalRate, 429, true, "Too many signals in a short time.", "Try again after `retryAfterMs`."},
		{CodeNotSupported, 501, false, "This version or engine cannot do that.", "See the capabilities; use another way."},
		{CodeSchemaValidation, 422, false, "An event does not satisfy its schema.", "Correct every place that `violations` lists."},
		{CodeInvalidTransition, 409, false, "The attempt or run already ended in another way.", "Adopt the stored end, which the answer carries."},
		{CodeOrphanedTask, 409, false, "A result came for a run that has ended; it was put aside.", "Nothing; the audit log has a row."},
		{CodeStoreUnavailable, 503, true, "The store cannot be reached; nothing was done.", "Try again after `retryAfterMs`."},
		{CodeStoreOverloaded, 503, true, "The store has more to do than it can; nothing was done.", "Try again after `retryAfterMs`."},
		{CodeEngineUnavailable, 503, true, "The workflow engine cannot be reached.", "Nothing; what was accepted is delivered when it is back."},
		{CodeUnavailable, 503, true, "A part that this call needs is down.", "Try again after `retryAfterMs`."},
		{CodePolicyMoved, 409, false, "The policy has changed since `expectedVersion`.", "Read the policy, make the change again and decide anew."},
		{CodeAuthRate, 429, true, "Too many wrong tokens came from this address.", "Correct the token; try again after `retryAfterMs`."},
		{CodeTooManyStreams, 429, true, "Too many subscriptions are open.", "Close some, then try again."},
		{CodeQueryTooComplex, 400, false, "The query asks for too much at once.", "Ask for fewer fields or smaller pages."},
		{CodeQueryTooDeep, 400, false, "The query is nested too deeply.", "Nest it less."},
		{CodeTooManyAliases, 400, false, "The query has too many aliases.", "Split it."},
		{CodeQueryUnknown, 404, false, "This server has not seen the query of this hash.", "Send the query's text with its hash, once; clients of persisted queries do so by themselves."},
		{CodeCursorInvalid, 400, false, "The cursor cannot be read.", "Start again without it."},
		{CodeTokenExpired, 401, false, "The token expired.", "Get a new token and connect again."},
		{CodeResyncFailed, 503, true, "The stream could not be brought up to date and was ended.", "Subscribe again."},
		{CodeServerShutdown, 503, true, "The server is stopping.", "Connect again; another server answers."},
		{CodeInternal, 500, true, "Something went wrong on our side.", "Try again; report the request id if it lasts."},
		{CodeCausalViolation, 0, false, "Events stand in the log in an order that should not be.", "Nothing at once; the state is right. Look at the writer of the log."},
		{CodeEventRejected, 0, false, "The result of a step could not be recorded as it was.", "Make the step's result smaller or valid, then retry the step."},
		{CodeWriteBudget, 0, true, "The log did not confirm in time that the step completed.", "Find out why the store was slow, then retry the step."},
		{CodeTimeout, 0, true, "An attempt took longer than its timeout.", "Find out why, or raise the step's timeout."},
		{CodeCancelled, 0, false, "The attempt was cancelled with its run.", "Nothing."},
		{CodeCancelledByPause, 0, true, "The attempt was cancelled by a pause.", "Resume the run; the step starts again."},
		{CodeNotApplied, 0, false, "An accepted signal had no effect before the run ended.", "Look at how the run ended."},
		{CodeSuperseded, 0, false, "Another signal already did what this one asked for.", "Nothing."},
		{CodeAlreadyInState, 0, false, "The run or step is already as asked.", "Nothing."},
		{CodeStoreRegressed, 503, true, "The store came back from an older backup.", "Nothing; the operators repair the run."},
		{CodeManualToken, 403, false, "The completion token is not that of the open wait.", "Read the task again: a retry gives it a new token."},
		{CodeManualNotWaiting, 409, false, "The step does not wait for a person.", "Look at the step; it may be completed already."},
		{CodeManualFailed, 0, true, "A person said that the step failed.", "Read the notes of the completion; retry the step to ask again."},
		{CodeSOD, 403, false, "Separation of duties: who asked for the run may not decide this.", "Ask someone else who may."},
		{CodeTerminated, 0, false, "The attempt was cut off when its run was stopped by force.", "Check what the step left behind."},
		{CodeEngineLost, 0, true, "The engine does not know the run any more.", "Start a new run; look at the engine's health."},
		{CodeEngineTerminated, 0, true, "The run's execution was ended in the engine, without dvt.", "Start a new run; find out who ended it."},
		{CodeQuotaExceeded, 429, true, "The tenant or project has started as many runs as it may for now.", "Try again after `retryAfterMs`."},
		{CodeQueueFull, 429, true, "As many runs wait already as may.", "Wait until some have started, or cancel some."},
		{CodeQueueTTL, 0, true, "The run waited longer than runs may wait.", "Start it again with a new request id when there is less to do, or ask for a larger quota."},
		{CodeQuotaMoved, 409, false, "The quotas have changed since `expectedVersion`.", "Read them, make the change again and decide anew."},
		{CodeEngineReadOnly, 503, true, "dvt is read-only: nothing new starts until its operators lift that.", "Look at the banner for the reason; try again later."},
		{CodeEngineDraining, 503, true, "dvt is being drained: nothing new starts here.", "Look at the banner for the reason; try again later."},
		{CodeEngineDegraded, 503, true, "The engine starts runs too slowly for new ones.", "Try again after `retryAfterMs`; it recovers by itself."},
		{CodeTenantFrozen, 403, false, "The tenant is frozen: nothing new starts.", "Ask its administrators; `service` says why."},
		{CodeApprovalExpired, 0, false, "Not enough people approved the run in time.", "Start it again and ask for approval."},
		{CodeApprovalRejected, 0, false, "A person rejected the run.", "Read the reason; start it again when it no longer holds."},
		{CodeBulkMoved, 409, false, "Other runs are meant now than `expectedCount` says.", "Look at the preview again: `current` has the count."},
		{CodeBulkTooLarge, 413, false, "More runs are meant than one bulk may have.", "Narrow the filter; `limit` says how many there may be."},
		{CodeTooManyBulks, 429, true, "As many of your bulks are open as may.", "Wait until one is done."},
	}
}
