// SPDX-License-Identifier: Apache-2.0

package snowflake_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"example.com/snowflake"
	"example.com/snowflake/snowflaketest"
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
	command.Env = append(os.Environ(), "GOPROXY=off")
	said, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, arguments, err, said)
	}
	return string(said)
}

func TestVersionIsThatOfTheTree(t *testing.T) {
	found := regexp.MustCompile(`(?m)^\s*version: '([^']+)'`).FindStringSubmatch(
		slurp(t, "../../meson.build"))
	if found == nil || found[1] != snowflake.Version {
		t.Errorf("%q, not %q", found, snowflake.Version)
	}
}

// The module path is a placeholder. One command replaces it wherever it is.
func TestRename(t *testing.T) {
	copied := t.TempDir()
	run(t, "../..", "sh", "-ec", `git ls-files -z --cached --others --exclude-standard clients/go docs tests/clients/runners |
		xargs -0 cp --parents -t "$0" 2>"$0/missing" || [ -s "$0/missing" ]`, copied)
	directory := filepath.Join(copied, "clients", "go")
	run(t, directory, "./rename", "ids.test/team/snowflake/v2")
	said := run(t, copied, "sh", "-c", "grep -rn example.com/snowflake . || true")
	if said != "" {
		t.Errorf("it left %s", said)
	}
	run(t, directory, "go", "vet", "./snowflaketest")
}

// As a user has it: in an empty directory, without the network.
func TestReadme(t *testing.T) {
	tree, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	readme := slurp(t, "README.md")
	var blocks []string
	for _, found := range regexp.MustCompile("(?s)```(?:go|sh)\n(.*?)```").FindAllStringSubmatch(readme, -1) {
		blocks = append(blocks, found[1])
	}
	if len(blocks) != 5 {
		t.Fatalf("%d examples", len(blocks))
	}
	directory := t.TempDir()
	run(t, directory, "sh", "-ec", "TREE=$0; "+blocks[0], tree)
	address := snowflaketest.StartServer(t)
	for i, one := range []struct{ file, text, command, says string }{
		{"main.go", strings.Replace(blocks[1], "127.0.0.1:7609", address, 1), "go run .",
			`^\d{18,19}\n\[\d+ \d+ \d+\]\n$`},
		{"main.go", blocks[2], "go run .", `^2023-11-14 22:13:20 \+0000 UTC 1 2 3 <nil>\n` +
			`23OSfOacDQp 1FVPP347W4803\n1724551110456385539 <nil>\n` +
			`SELECT \* FROM orders WHERE id BETWEEN \d+ AND \d+ <nil>\n$`},
		{"main_test.go", blocks[3], "go test -v .", `(?s)--- PASS: TestWithFake.*--- PASS: TestWithServer`},
		{"order.go", blocks[4], "go test -v .", "--- PASS: TestRecipe"},
	} {
		// a timeout of a minute: the machine can be slow
		text := regexp.MustCompile(`Agent: "[\w-]+"`).ReplaceAllString(one.text, "$0, Timeout: 60e9")
		if err := os.WriteFile(filepath.Join(directory, one.file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if i == 3 {
			stubGORM(t, directory)
		}
		said := run(t, directory, "sh", "-ec", one.command)
		if !regexp.MustCompile(one.says).MatchString(said) {
			t.Errorf("example %d says %q", i, said)
		}
	}
}

// stubGORM makes what the recipe uses of GORM 2, which Debian lacks.
func stubGORM(t *testing.T, directory string) {
	t.Helper()
	stub := filepath.Join(directory, "gorm")
	if err := os.Mkdir(stub, 0o700); err != nil {
		t.Fatal(err)
	}
	test := "package main\n\nimport (\n\"context\"\n\"testing\"\n\n\"example.com/snowflake/snowflaketest\"\n" +
		"\"gorm.io/gorm\"\n)\n\nfunc TestRecipe(t *testing.T) {\n\tids = snowflaketest.NewAt(7)\n" +
		"\torder := &Order{}\n\terr := order.BeforeCreate(&gorm.DB{Statement: &gorm.Statement{Context: " +
		"context.Background()}})\n\tif order.ID != 7 || err != nil {\n\t\tt.Error(order, err)\n\t}\n}\n"
	if err := os.WriteFile(filepath.Join(directory, "order_test.go"), []byte(test), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{"go.mod": "module gorm.io/gorm\n", "gorm.go": "package gorm\n" +
		"import \"context\"\n\ntype DB struct { Statement *Statement }\n" +
		"type Statement struct { Context context.Context }\n"} {
		if err := os.WriteFile(filepath.Join(stub, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run(t, directory, "go", "mod", "edit", "-require", "gorm.io/gorm@v0.0.0", "-replace", "gorm.io/gorm=./gorm")
}
