// SPDX-License-Identifier: Apache-2.0

package snowflake_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"snowflake"
	"snowflake/snowflaketest"
)

func slurp(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// run returns what a command says; it must end well.
func run(t *testing.T, directory, name string, arguments ...string) string {
	t.Helper()
	command := exec.Command(name, arguments...)
	command.Dir = directory
	command.Env = append(os.Environ(), "GOFLAGS=", "GOPROXY=off")
	said, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, arguments, err, said)
	}
	return string(said)
}

func TestGeneratedCodeIsTheCompilers(t *testing.T) {
	made := t.TempDir()
	run(t, ".", "./generate", made)
	names := map[string]bool{}
	for _, directory := range []string{made, "internal/generated"} {
		files, err := os.ReadDir(directory)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			names[file.Name()] = true
		}
	}
	if len(names) < 2 {
		t.Fatalf("only %v", names)
	}
	for name := range names {
		mine, err := os.ReadFile(filepath.Join("internal/generated", name))
		theirs, otherErr := os.ReadFile(filepath.Join(made, name))
		if err != nil || otherErr != nil || !bytes.Equal(mine, theirs) {
			t.Errorf("internal/generated/%s is not as ./generate makes it (%v, %v)", name, err, otherErr)
		}
	}
}

func TestVersionIsThatOfTheTree(t *testing.T) {
	found := regexp.MustCompile(`(?m)^\s*version: '([^']+)'`).FindStringSubmatch(
		slurp(t, "../../meson.build"))
	if found == nil || found[1] != snowflake.Version {
		t.Errorf("%q, not %q", found, snowflake.Version)
	}
}

// As a user has it, in an empty directory, with Debian's library.
func TestReadme(t *testing.T) {
	tree, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	readme := slurp(t, "README.md")
	const install = "\"$TREE/clients/go/offline\" my-program ."
	if !strings.Contains(readme, install+"\n") {
		t.Fatalf("it does not say %s", install)
	}
	var blocks []string
	for _, found := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(readme, -1) {
		blocks = append(blocks, found[1])
	}
	if len(blocks) != 3 {
		t.Fatalf("%d examples in Go", len(blocks))
	}
	directory := t.TempDir()
	run(t, directory, "sh", "-ec", "TREE=$0; "+install, tree)
	address := snowflaketest.StartServer(t)
	first := strings.Replace(blocks[0], "127.0.0.1:7609", address, 1)
	for i, one := range []struct{ file, text, command, says string }{
		{"main.go", first, "go run .", `^\d{18,19} <nil>\n\[\d+ \d+ \d+\] <nil>\n$`},
		{"main.go", blocks[1], "go run .", `^2023-11-14 22:13:20 \+0000 UTC 1 2 3 <nil>\n` +
			`23OSfOacDQp 1FVPP347W4803\n1724551110456385539 <nil>\n` +
			`SELECT \* FROM orders WHERE id BETWEEN \d+ AND \d+ <nil>\n$`},
		{"main_test.go", blocks[2], "go test -v .", `(?s)--- PASS: TestWithFake.*--- PASS: TestWithServer`},
	} {
		// a timeout of a minute: the machine can be slow
		text := regexp.MustCompile(`Agent: "[\w-]+"`).ReplaceAllString(one.text, "$0, Timeout: 60e9")
		if err := os.WriteFile(filepath.Join(directory, one.file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		said := run(t, directory, "sh", "-ec", one.command)
		if !regexp.MustCompile(one.says).MatchString(said) {
			t.Errorf("example %d says %q", i, said)
		}
	}
}
