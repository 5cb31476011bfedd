package doctor

import (
	"regexp"
	"strings"

	"github.com/dvt-engine/dvt/run"
)

// isProgram reports whether a code says only that a program or service failed, so that its output must say why.
func isProgram(code string) bool {
	switch code {
	case "EXIT_STATUS", "DBT_FAILED", "DBT_USAGE", "HTTP_STATUS", "HTTP_TRANSPORT", "UNKNOWN":
		return true
	}
	return false
}

// codeNoProgram is the code of steps whose own program does not exist.
const codeNoProgram Code = "PROGRAM_NOT_FOUND"

// sign is a form of error lines that programs and databases use alike.
type sign struct {
	code        Code
	line        *regexp.Regexp
	title, what string
}

// signs are tried in order. Each is what well-known programs print; a line that has none keeps the code of its step.
var signs = []sign{
	{
		CodeSandboxRefused,
		regexp.MustCompile(`^sandbox \([a-z]+\): .* was refused\b`),
		"The sandbox refused what the step needs.",
		"If the step needs it, list it in the sandbox of the step, or ask the operator of the workers to permit it.",
	},
	{
		// What shells and env print for a program that does not exist, or whose interpreter does not.
		codeNoProgram,
		regexp.MustCompile(`(?i)command not found|^\S*sh: (line )?\d+: \S+: (inaccessible or )?not found|bad interpreter|` +
			`executable file not found|\benv: .{1,80}: no such file`),
		"A program that the step calls does not exist on the worker.",
		"Install it on the worker, or correct its name or path in the step.",
	},
	{
		CodeDiskFull,
		regexp.MustCompile(`(?i)no space left on device|disk (is )?full|could not extend file|disk quota exceeded`),
		"A disk is full.", "Free space where the program or its database writes.",
	},
	{
		run.CodeStepOOM,
		regexp.MustCompile(`(?i)out of memory|cannot allocate memory|memoryerror|exit status 137|java heap space`),
		"The program ran out of memory.", "Give the step more memory, or less to do at once.",
	},
	{
		// Databases and ssh go on after "permission denied"; shells and libraries end with it, or give its number.
		CodeFileRefused,
		regexp.MustCompile(`(?im): permission denied( \([^()]* ended with exit status -?\d+\))?$|\[errno 13\]|\beacces\b|read-only file system`),
		"A file may not be read, written or executed.",
		"Check the owner and the mode of the file, and that the disk is writable, on the worker.",
	},
	{
		CodeCertificate,
		regexp.MustCompile(`(?i)certificate[ _]verif(y|ication)[ _]failed|certificate (has expired|signed by unknown authority)|` +
			`ssl certificate problem|host key verification failed|host identification has changed|hostname mismatch|` +
			`certificate is not yet valid|self[- ]signed certificate|unable to (verify the first|get local issuer) certificate`),
		"The certificate of a service is not accepted.",
		"Renew the certificate, or give the step the authority that issued it. Check the clock of the worker.",
	},
	{
		CodeCredentials, regexp.MustCompile(`(?i)(password )?authentication failed|access denied|permission denied|` +
			`not authori[sz]ed|unauthori[sz]ed|invalid (username|password|credentials|api key)|expired token|` +
			`no pg_hba\.conf entry|is not allowed to (connect|access)|token (has )?expired|` +
			`incorrect (user ?name|password)|log[io]n (denied|failed)|insufficient privileges|` +
			`\b(role|user) \S{1,80} does not exist|\b40[13] (client error|forbidden|unauthorized)|status 40[13]\b`),
		"Access was refused.", "Check the credentials and the grants that the step uses.",
	},
	{
		CodeRateLimited, regexp.MustCompile(`(?i)too many (requests|clients|connections)|rate ?limit|throttl|status 429\b|` +
			`quota exceeded|connection slots are reserved`),
		"A service refused further calls for now.", "Wait. Run less at once if it comes back.",
	},
	{
		CodeContention, regexp.MustCompile(`(?i)deadlock|could not serialize|lock (wait )?timeout|could not obtain lock|` +
			`database is locked|concurrent (update|transaction)`),
		"The step met another writer of the same data.", "If it comes back, look what else writes these tables at this time.",
	},
	{
		CodeStatementTimeout,
		regexp.MustCompile(`(?i)due to statement timeout|(query|statement) (execution )?(timed out|time(out)? exceeded)|` +
			`maximum (statement )?execution time exceeded`),
		"The database ended a statement that took too long.",
		"Look at what the statement reads and who else uses the database, or raise its limit.",
	},
	{
		CodeUnreachable,
		regexp.MustCompile(`(?i)connection (was )?(refused|reset|timed out|closed)|could(n't| not) connect|` +
			`failed to connect|could not resolve|unknownhost|\b(econnrefused|econnreset|etimedout|enotfound|eai_again)\b|` +
			`read (operation )?timed out|\b50[234] server error|` +
			`database system is (starting up|shutting down|in recovery)|not (yet )?accepting connections|` +
			`server has gone away|terminating connection due to|connection (was )?terminated|closed the connection|` +
			`unexpected eof while reading|name or service not known|no such host|` +
			`temporary failure in name resolution|no route to host|` +
			`network is unreachable|i/o timeout|connect: |connection to server .* failed|server closed the connection|` +
			`\b50[234] (bad gateway|service unavailable|gateway timeout)|no connection could be made|there was no answer in time|` +
			`the name could not be resolved`),
		"Something that the step needs does not answer.", "Check that the service or database runs and can be " +
			"reached from the worker.",
	},
	{
		CodeDataRefused,
		regexp.MustCompile(`(?i)duplicate (key|entry)|violates .{0,40}constraint|unique constraint .{0,120}violated|` +
			`invalid input syntax for|value too long for|division by zero|divide by zero|numeric .{0,40}out of range|` +
			`truncated (wrong|incorrect) `),
		"The data do not fit the statement or the table.",
		"Look at the rows that the message names, and at the load that brought them.",
	},
	{
		CodeMissingVariable,
		regexp.MustCompile(`(?i)unbound variable|parameter (not set|null or not set)|env(ironment)? var(iable)?s? .{0,80}` +
			`(not (set|provided|defined|found)|missing)|env var required but not provided`),
		"A variable that the step needs is not set.", "Set it in the inputs of the step, or in the environment of the " +
			"workers.",
	},
	{
		CodeBrokenCode,
		regexp.MustCompile(`(?i)syntax error|syntaxerror|compilation error|parser error|unexpected token|` +
			`importerror|modulenotfounderror|nameerror|panic: runtime error|segmentation fault|` +
			`^([\w.]+\.)?(key|type|attribute|index|unboundlocal|recursion|reference)error\b|` +
			`\b(nullpointer|classcast|indexoutofbounds|illegalstate)exception\b|undefined (variable|function|name)|is undefined`),
		"The program or the SQL of the step is wrong.", "Correct it. Compare with the last green run to see " +
			"what changed.",
	},
	{
		// What readers of documents, archives and values print. Compilers print some of it too, so their forms come first.
		CodeDataRefused,
		regexp.MustCompile(`(?i)unexpected end of (file|data|archive|input|json)|unexpected eof in|not in gzip format|` +
			`(jsondecode|unicodedecode|parse|zlib|badzipfile)\.?error\b|badzipfile|invalid (json|header|date|timestamp|byte sequence)|` +
			`crc error|corrupt(ed)? (file|input|data|archive|record|zip)|checksum mismatch|malformed|not well-formed|` +
			`conversion error|could not convert|cannot (parse|convert|cast)|does not look like a tar archive`),
		"The data cannot be read, or do not fit what the program expects.",
		"Look at the file or the rows that the message names, and at the load that brought them.",
	},
	{
		CodeMissingObject,
		regexp.MustCompile(`(?i)(relation|table|view|column|schema|database|catalog)\b.{0,80}(does not exist|not found)|` +
			`no such (file|table|column)|file ?not ?found|does not exist|unknown (table|column)|status 404\b`),
		"A table, column or file that the step needs does not exist.",
		"Look at the step or load that should create it.",
	},
}

// ending matches what an executor adds to the line that it quotes.
var ending = regexp.MustCompile(` \([^()]* (ended with exit status -?\d+|was ended by a signal)\)$`)

// outputLine returns the first line that the message of an error quotes, as the log has it.
func outputLine(message string) string {
	first, _, _ := strings.Cut(message, "\n")
	return ending.ReplaceAllString(first, "")
}

// classify says what an error line is about, or "".
func classify(line string) (code Code, title, what string) {
	for _, s := range signs {
		if s.line.MatchString(line) {
			return s.code, s.title, s.what
		}
	}
	return "", "", ""
}

// isEnvironment reports whether a cause lies outside the step, so that it comes before the other failures.
func isEnvironment(c Code) bool {
	switch c {
	case CodeDiskFull, CodeUnreachable, CodeCredentials, CodeWorkerLost, run.CodeWriteBudget:
		return true
	}
	return false
}

// isTransient reports whether a cause comes and goes without a change of the plan.
func isTransient(c Code) bool {
	return isEnvironment(c) || c == CodeContention || c == CodeRateLimited || c == run.CodeManualFailed
}
