package architecture_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
)

// MaxParameters is how many parameters a function may have beside its context.
const MaxParameters = 3

// refused lists phrases that comments and texts for users avoid: each has a plainer form.
var refused = regexp.MustCompile(
	`(?i)\b(tells|told|answers whether|says whether|takes that|is of which|what there is|that is had|is both)\b`)

// persons lists the nouns that "who" and "whose" may refer to.
var persons = regexp.MustCompile(`(?i)\b(person|persons|people|user|users|operator|operators|analyst|analysts|reader|` +
	`readers|caller|callers|somebody|someone|anybody|anyone|nobody|everybody|everyone|those|engineer|engineers|` +
	`newcomer|newcomers|owner|owners|customer|customers|developer|developers|one|attacker|administrator),?\s+$`)

var who = regexp.MustCompile(`(?i)\bwho(m|se|ever)?\b`)

// ProseFaults returns the comments and texts of a Go source that are not in plain words, a line each: comments of
// functions that do not open with the name and a verb in the third person, refused phrases, and "who" of what is no
// person.
func ProseFaults(name, source string) ([]string, error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var faults []string
	fault := func(at token.Pos, format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%s: %s", set.Position(at), fmt.Sprintf(format, args...)))
	}
	opening := func(name string, doc *ast.CommentGroup) {
		if doc != nil && !opens(doc.Text(), name) {
			line, _, _ := strings.Cut(doc.Text(), "\n")
			fault(doc.Pos(), "the comment of %s does not open with its name and a verb, such as \"%s returns\": %s",
				name, name, line)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			opening(n.Name.Name, n.Doc)
		case *ast.InterfaceType:
			for _, m := range n.Methods.List {
				if _, method := m.Type.(*ast.FuncType); method && len(m.Names) == 1 {
					opening(m.Names[0].Name, m.Doc)
				}
			}
		case *ast.BasicLit:
			if phrase := refused.FindString(n.Value); n.Kind == token.STRING && phrase != "" {
				fault(n.Pos(), "%q in a text: say it plainly", phrase)
			}
		}
		return true
	})
	for _, group := range f.Comments {
		text := strings.ReplaceAll(group.Text(), "\n", " ")
		if phrase := refused.FindString(text); phrase != "" {
			fault(group.Pos(), "%q in a comment: say it plainly", phrase)
		}
		for _, at := range who.FindAllStringIndex(text, -1) {
			if !persons.MatchString(text[:at[0]]) {
				fault(group.Pos(), "%q of what is no person: …%s", text[at[0]:at[1]], around(text, at[0]))
			}
		}
	}
	return faults, nil
}

// opens reports whether a comment opens with the name and a verb in the third person, other than is.
func opens(text, name string) bool {
	words := strings.Fields(text)
	if len(words) < 2 || words[0] != name {
		return false
	}
	verb := words[1]
	if len(words) > 2 && strings.HasSuffix(verb, "ly") || verb == "also" {
		verb = words[2]
	}
	verb = strings.TrimRight(verb, ",:;.")
	return verb != "is" && verb != "was" && verb == strings.ToLower(verb) && strings.HasSuffix(verb, "s")
}

func around(text string, at int) string {
	return strings.ToValidUTF8(text[max(0, at-30):min(len(text), at+30)], "")
}

// ManyParameters returns the functions of a Go source that have more than MaxParameters beside a context, a line each.
func ManyParameters(name, source string) ([]string, error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var faults []string
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		count := 0
		for _, p := range fn.Type.Params.List {
			if s, ok := p.Type.(*ast.SelectorExpr); !ok || s.Sel.Name != "Context" {
				count += max(1, len(p.Names))
			}
		}
		if count > MaxParameters {
			faults = append(faults, fmt.Sprintf("%s: %s has %d parameters beside its context",
				set.Position(fn.Pos()), fn.Name.Name, count))
		}
	}
	return faults, nil
}
