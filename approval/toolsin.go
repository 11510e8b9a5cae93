package approval

import (
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// ToolsIn returns the names with which an expression compares the variable tool: tool == "refund",
// tool in ["refund", "order"]. It returns nil for an invalid expression.
func ToolsIn(when string) []string {
	if when == "" {
		return nil
	}
	known, _ := compiled(when)
	return known.tools
}

func toolsIn(parsed *cel.Ast) []string {
	own := ast.MatchDescendants(ast.NavigateAST(parsed.NativeRep()), func(e ast.NavigableExpr) bool {
		return e.Kind() == ast.ComprehensionKind && (e.AsComprehension().IterVar() == "tool" || e.AsComprehension().IterVar2() == "tool")
	})
	if len(own) > 0 {
		return nil // the name is that of a variable of the expression
	}
	var out []string
	comparisons := ast.MatchDescendants(ast.NavigateAST(parsed.NativeRep()), func(e ast.NavigableExpr) bool {
		return e.Kind() == ast.CallKind && slices.Contains([]string{operators.Equals, operators.NotEquals, operators.In}, e.AsCall().FunctionName())
	})
	for _, c := range comparisons {
		sides := c.AsCall().Args()
		if at := slices.IndexFunc(sides, isTool); at >= 0 {
			out = append(out, textsIn(sides[1-at])...)
		}
	}
	return out
}

func isTool(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == "tool" }

// textsIn returns a constant text, or those of a list.
func textsIn(e ast.Expr) []string {
	if e.Kind() == ast.ListKind {
		var out []string
		for _, one := range e.AsList().Elements() {
			out = append(out, textsIn(one)...)
		}
		return out
	}
	if e.Kind() == ast.LiteralKind {
		if text, ok := e.AsLiteral().(types.String); ok {
			return []string{string(text)}
		}
	}
	return nil
}
