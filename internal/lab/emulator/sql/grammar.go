package sql

import (
	"github.com/alecthomas/participle/v2"
	"github.com/alecthomas/participle/v2/lexer"
)

// The structs below are the grammar, read by participle, which sets Pos and EndPos. They mirror the text; compile turns
// them into a Query. Operators come as flat chains, which precedence.go gives their structure: a rule for
// each level of precedence would make the parser slow.

type statement struct {
	Pos      lexer.Position
	Distinct bool       `parser:"'SELECT' @'DISTINCT'?"`
	Top      *count     `parser:"('TOP' @@)?"`
	Star     bool       `parser:"( @'*'"`
	Value    *expr      `parser:"| 'VALUE' @@"`
	Columns  []*column  `parser:"| @@ (',' @@)* )"`
	From     *from      `parser:"('FROM' @@)?"`
	Where    *expr      `parser:"('WHERE' @@)?"`
	Group    []*expr    `parser:"('GROUP' 'BY' @@ (',' @@)*)?"`
	Order    []*ordered `parser:"('ORDER' 'BY' @@ (',' @@)*)?"`
	Offset   *count     `parser:"('OFFSET' @@"`
	Limit    *count     `parser:" 'LIMIT' @@)?"`
}

type count struct {
	Pos    lexer.Position
	Number string `parser:"  @Number"`
	Param  string `parser:"| @Param"`
}

type column struct {
	Pos   lexer.Position
	Expr  *expr     `parser:"@@"`
	Alias *aliasRef `parser:"('AS'? @@)?"`
}

type aliasRef struct {
	Pos  lexer.Position
	Name string `parser:"@Ident"`
}

type from struct {
	Pos    lexer.Position
	Source *source   `parser:"@@"`
	Joins  []*source `parser:"('JOIN' @@)*"`
	EndPos lexer.Position
}

// source is c, c.path AS name, name IN c.path, or a subquery AS name.
type source struct {
	Pos     lexer.Position
	Element string     `parser:"(@Ident 'IN')?"`
	Sub     *statement `parser:"( '(' (?= 'SELECT') @@ ')'"`
	Called  string     `parser:"  ('AS'? @Ident)?"`
	Root    string     `parser:"| @Ident"`
	Steps   []*stepRef `parser:"  @@*"`
	Alias   string     `parser:"  ('AS'? @Ident)? )"`
}

type ordered struct {
	Pos  lexer.Position
	Expr *expr  `parser:"@@"`
	Dir  string `parser:"@('ASC' | 'DESC')?"`
}

type expr struct {
	Pos    lexer.Position
	First  *term   `parser:"@@"`
	Rest   []*link `parser:"@@*"`
	EndPos lexer.Position
}

// link is an operator, or a test, with its right side. The AND of a BETWEEN and the ESCAPE of a LIKE are links,
// too.
type link struct {
	Op    string  `parser:"( @('OR'|'AND'|'='|'!='|'<>'|'<='|'>='|'<'|'>'|'+'|'-'|'*'|'/'|'%'|'ESCAPE')"`
	Right *term   `parser:"  @@"`
	Not   bool    `parser:"| @'NOT'?"`
	Test  string  `parser:"  ( @('BETWEEN'|'LIKE')"`
	Of    *term   `parser:"    @@"`
	In    []*expr `parser:"  | 'IN' '(' @@ (',' @@)* ')' ) )"`
}

type term struct {
	Pos    lexer.Position
	Not    []string   `parser:"@'NOT'*"`
	Sign   []string   `parser:"@('-' | '+')*"`
	Number string     `parser:"(  @Number"`
	Str    *string    `parser:" | @String"`
	Const  string     `parser:" | @('TRUE' | 'FALSE' | 'NULL' | 'UNDEFINED')"`
	Param  string     `parser:" | @Param"`
	Call   *callRef   `parser:" | @@"`
	Name   string     `parser:" | @Ident"`
	Query  *subRef    `parser:" | @@"`
	Sub    *expr      `parser:" | '(' @@ ')'"`
	Object *objectRef `parser:" | @@"`
	Array  *arrayRef  `parser:" | @@ )"`
	Steps  []*stepRef `parser:"@@*"`
}

// subRef is a subquery: one value, all values as an array, or whether there is one.
type subRef struct {
	Pos  lexer.Position
	Kind string     `parser:"@('ARRAY' | 'EXISTS')? '('"`
	Text *statement `parser:"(?= 'SELECT') @@ ')'"`
}

type callRef struct {
	Pos  lexer.Position
	Name string  `parser:"@(Ident | 'LEFT' | 'RIGHT') '('"`
	Star bool    `parser:"( @'*'"`
	Args []*expr `parser:"| @@ (',' @@)* )? ')'"`
}

type objectRef struct {
	Open   string      `parser:"@'{'"`
	Fields []*fieldRef `parser:"(@@ (',' @@)*)? '}'"`
}

type fieldRef struct {
	Pos   lexer.Position
	Name  string  `parser:"( @Ident"`
	Quote *string `parser:"| @String ) ':'"`
	Value *expr   `parser:"@@"`
}

type arrayRef struct {
	Open     string  `parser:"@'['"`
	Elements []*expr `parser:"(@@ (',' @@)*)? ']'"`
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
const keywords = "AND|ARRAY|ASC|AS|BETWEEN|BY|CASE|CAST|CONVERT|CROSS|DESC|DISTINCT|ELSE|END|ESCAPE|EXISTS|FALSE|" +
	"FOR|FROM|GROUP|HAVING|INNER|INSERT|INTO|IN|IS|JOIN|LEFT|LIKE|LIMIT|NOT|NULL|OFFSET|ON|ORDER|OR|" +
	"OUTER|OVER|RIGHT|SELECT|SET|THEN|TOP|TRUE|UDF|UNDEFINED|UPDATE|VALUE|WHEN|WHERE|WITH"

var tokens = lexer.MustSimple([]lexer.SimpleRule{
	{Name: "Space", Pattern: `\s+|--[^\n]*`},
	{Name: "Keyword", Pattern: `(?i)(?:` + keywords + `)\b`},
	{Name: "Ident", Pattern: `[A-Za-z_][A-Za-z0-9_]*`},
	{Name: "Param", Pattern: `@[A-Za-z_][A-Za-z0-9_]*`},
	{Name: "Number", Pattern: `(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?`},
	{Name: "String", Pattern: `"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'`},
	{Name: "Symbol", Pattern: `<<|>>>|>>|<=|>=|!=|<>|\|\||\?\?|[-+*/%&|^~?:,.=<>(){}\[\]]`},
})

var parser = participle.MustBuild[statement](
	participle.Lexer(tokens),
	participle.Elide("Space"),
	participle.CaseInsensitive("Keyword"),
	participle.UseLookahead(2),
)
