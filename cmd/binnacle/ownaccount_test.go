package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The guide that gives a tenant an account is typed as it stands between two accounts. Readings that are published
// before, while and after the publishers switch, some to both sides, are at the target once each.
func TestAccountOfItsOwn(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/operate/tenants.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```bash\n(.*?)```").FindAllStringSubmatch(string(guide), -1)
	require.Len(t, blocks, 2)
	source := startDev(t, t.TempDir(), "--fleet=0", "--hold=1s")
	target := startDev(t, t.TempDir(), "--fleet=0", "--hold=1s")
	dir := t.TempDir()
	require.NoError(t, os.Symlink(program, filepath.Join(dir, "binnacle")))
	shell := openTerminal(t, dir)
	shell.run("export PATH=.:$PATH SOURCE=" + source.cosmos + " TARGET=" + target.cosmos + " ADMIN=" + source.admin)
	begin, want := time.Now().Add(-time.Hour).Truncate(time.Second).UTC(), []string{"time,device,speed"}
	for i := range 40 {
		at := begin.Add(time.Duration(i) * time.Minute).Format("2006-01-02T15:04:05.000Z")
		want = append(want, fmt.Sprintf("%s,truck-7,%d", at, i))
	}
	publish := func(to *dev, first, end int) {
		t.Helper()
		rows := []string{"time,speed"}
		for i := first; i < end; i++ {
			rows = append(rows, fmt.Sprintf("%d,%d", begin.Unix()+int64(i)*60, i))
		}
		name := fmt.Sprintf("rows-%d-%d.csv", first, end)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(strings.Join(rows, "\n")+"\n"), 0o600))
		shell.run("binnacle replay " + name + " --tenant acme --device truck-7 --kafka " + to.kafka)
	}
	publish(source, 0, 10)
	source.stored("acme")
	shell.run(strings.Replace(blocks[0][1], "--follow", "--follow --settle 1s", 1)) // no replica lags here
	publish(source, 10, 20)
	publish(target, 18, 30) // two of them went to the source, too
	publish(source, 20, 22) // and a straggler sends two to the source that the target has
	publish(target, 30, 40)
	require.Regexp(t, `(?m)^equal$`, shell.run(blocks[1][1]))
	got := shell.run(`curl -sf -H 'X-Scope-OrgID: acme' 'http://` + target.api +
		`/api/v1/readings?from=-2h&strict=true&format=csv'`)
	require.Equal(t, strings.Join(want, "\n"), strings.TrimSpace(got))
}
