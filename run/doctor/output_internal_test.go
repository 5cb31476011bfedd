package doctor

import "testing"

// The lines are what programs really print. They are not those of the classes that the clinic of the server injects.
func TestClassify_KnowsWhatProgramsPrint(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]Code{
		"zsh: command not found: dbt2 (zsh ended with exit status 127)":                             codeNoProgram,
		"/bin/sh: line 4: snowsql: command not found (sh ended with exit status 127)":               codeNoProgram,
		"env: ‘node’: No such file or directory (env ended with exit status 127)":                   codeNoProgram,
		"bash: ./load: /usr/bin/python2: bad interpreter: No such file or directory":                codeNoProgram,
		"tar: Unexpected EOF in archive (tar ended with exit status 2)":                             CodeDataRefused,
		"zlib.error: Error -3 while decompressing data: incorrect header check":                     CodeDataRefused,
		"xml.etree.ElementTree.ParseError: not well-formed (invalid token): line 1, column 4":       CodeDataRefused,
		"Conversion Error: Could not convert string 'abc' to INT32":                                 CodeDataRefused,
		"UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0":                    CodeDataRefused,
		"jq: error (at <stdin>:1): Cannot iterate over null (null) (jq ended with exit status 5)":   "",
		"TypeError: unsupported operand type(s) for +: 'int' and 'str'":                             CodeBrokenCode,
		"panic: runtime error: index out of range [5] with length 3":                                CodeBrokenCode,
		"Exception in thread \"main\" java.lang.NullPointerException: Cannot invoke \"a()\"":        CodeBrokenCode,
		"sh: 2: Syntax error: Unterminated quoted string (sh ended with exit status 2)":             CodeBrokenCode,
		"bash: -c: line 1: syntax error: unexpected end of file (bash ended with exit status 2)":    CodeBrokenCode,
		"FATAL:  the database system is shutting down":                                              CodeUnreachable,
		"ERROR 2006 (HY000) at line 1: MySQL server has gone away":                                  CodeUnreachable,
		"FATAL:  terminating connection due to administrator command":                               CodeUnreachable,
		"SQL Error: canceling statement due to statement timeout":                                   CodeStatementTimeout,
		"ERROR 1130 (HY000): Host '10.0.0.9' is not allowed to connect to this MySQL server":        CodeCredentials,
		"git@example.com: Permission denied (publickey).":                                           CodeCredentials,
		"@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @":                                      CodeCertificate,
		"x509: certificate is not yet valid":                                                        CodeCertificate,
		"Database Error: Catalog Error: Table with name orders does not exist!":                     CodeMissingObject,
		"OSError: [Errno 24] Too many open files: '/data/1.csv' (python3 ended with exit status 1)": "",
		"3 rows were rejected (load ended with exit status 7)":                                      "",
	} {
		if got, _, _ := classify(line); got != want {
			t.Errorf("classify(%q) = %q, want %q", line, got, want)
		}
	}
}
