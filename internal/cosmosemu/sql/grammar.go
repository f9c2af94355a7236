package sql

import (
	"github.com/alecthomas/participle/v2"
	"github.com/alecthomas/participle/v2/lexer"
)

// The structs below are the grammar, read by participle. They mirror the text; compile turns them
// into a Query.

type statement struct {
	Distinct *token     `parser:"'SELECT' @@?"`
	Top      *count     `parser:"('TOP' @@)?"`
	Star     bool       `parser:"( @'*'"`
	Value    *expr      `parser:"| 'VALUE' @@"`
	Columns  []*column  `parser:"| @@ (',' @@)* )"`
	From     *from      `parser:"('FROM' @@)?"`
	Where    *expr      `parser:"('WHERE' @@)?"`
	Order    []*ordered `parser:"('ORDER' 'BY' @@ (',' @@)*)?"`
	Offset   *count     `parser:"('OFFSET' @@"`
	Limit    *count     `parser:" 'LIMIT' @@)?"`
}

type token struct {
	Pos  lexer.Position
	Word string `parser:"@'DISTINCT'"`
}

type count struct {
	Pos    lexer.Position
	Number string `parser:"  @Number"`
	Param  string `parser:"| @Param"`
}

type column struct {
	Pos   lexer.Position
	Expr  *expr  `parser:"@@"`
	Alias string `parser:"('AS'? @Ident)?"`
}

type from struct {
	Pos   lexer.Position
	Root  string `parser:"@Ident"`
	Alias string `parser:"('AS'? @Ident)?"`
}

type ordered struct {
	Expr *expr  `parser:"@@"`
	Dir  string `parser:"@('ASC' | 'DESC')?"`
}

type expr struct {
	Or []*conjunction `parser:"@@ ('OR' @@)*"`
}

type conjunction struct {
	And []*negation `parser:"@@ ('AND' @@)*"`
}

type negation struct {
	Not  []string    `parser:"@'NOT'*"`
	Term *comparison `parser:"@@"`
}

type comparison struct {
	Left    *operand   `parser:"@@"`
	Op      string     `parser:"( @('=' | '!=' | '<>' | '<=' | '>=' | '<' | '>')"`
	Right   *operand   `parser:"  @@"`
	Not     bool       `parser:"| @'NOT'?"`
	In      []*operand `parser:"  ( 'IN' '(' @@ (',' @@)* ')'"`
	Between *between   `parser:"  | @@ ) )?"`
}

type between struct {
	Low  *operand `parser:"'BETWEEN' @@"`
	High *operand `parser:"'AND' @@"`
}

type operand struct {
	Pos    lexer.Position
	Minus  bool     `parser:"( @'-'?"`
	Number string   `parser:"  @Number"`
	Str    *string  `parser:"| @String"`
	Const  string   `parser:"| @('TRUE' | 'FALSE' | 'NULL' | 'UNDEFINED')"`
	Param  string   `parser:"| @Param"`
	Call   *callRef `parser:"| @@"`
	Path   *pathRef `parser:"| @@"`
	Sub    *expr    `parser:"| '(' @@ ')' )"`
}

type callRef struct {
	Pos  lexer.Position
	Name string  `parser:"@Ident '('"`
	Star bool    `parser:"( @'*'"`
	Args []*expr `parser:"| @@ (',' @@)* )? ')'"`
}

type pathRef struct {
	Pos   lexer.Position
	Root  string     `parser:"@Ident"`
	Steps []*stepRef `parser:"@@*"`
}

type stepRef struct {
	Pos   lexer.Position
	Name  string  `parser:"  '.' @Ident"`
	Quote *string `parser:"| '[' ( @String"`
	Index string  `parser:"      | @Number"`
	Param string  `parser:"      | @Param ) ']'"`
}

// keywords are the reserved words of the service's language: none may name a property after a dot.
// Words that the grammar does not use are reserved all the same, so that an unsupported construct is
// named by its own word.
const keywords = `AND|ARRAY|ASC|AS|BETWEEN|BY|CASE|CAST|CONVERT|CROSS|DESC|DISTINCT|ELSE|END|ESCAPE|EXISTS|FALSE|FOR|FROM|GROUP|HAVING|INNER|INSERT|INTO|IN|IS|JOIN|LEFT|LIKE|LIMIT|NOT|NULL|OFFSET|ON|ORDER|OR|OUTER|OVER|RIGHT|SELECT|SET|THEN|TOP|TRUE|UDF|UNDEFINED|UPDATE|VALUE|WHEN|WHERE|WITH`

var tokens = lexer.MustSimple([]lexer.SimpleRule{
	{Name: "Space", Pattern: `\s+|--[^\n]*`},
	{Name: "Keyword", Pattern: `(?i)(?:` + keywords + `)\b`},
	{Name: "Ident", Pattern: `[A-Za-z_][A-Za-z0-9_]*`},
	{Name: "Param", Pattern: `@[A-Za-z_][A-Za-z0-9_]*`},
	{Name: "Number", Pattern: `(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?`},
	{Name: "String", Pattern: `"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'`},
	{Name: "Symbol", Pattern: `<=|>=|!=|<>|\|\||\?\?|[-+*/%&|^~?:,.=<>(){}\[\]]`},
})

var parser = participle.MustBuild[statement](
	participle.Lexer(tokens),
	participle.Elide("Space"),
	participle.CaseInsensitive("Keyword"),
	participle.UseLookahead(2),
)
