package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"strconv"
)

// sitesOf returns the sites of a file. The choices are made later, when info has the types.
func sitesOf(file *ast.File, info *types.Info) (sites []*site) {
	add := func(node ast.Node, apply func(), choice func(on string, text func(ast.Node) string) string) {
		sites = append(sites, &site{apply: apply, node: node, choice: choice})
	}
	omitted := map[ast.Expr]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if e, is := n.(ast.Expr); is && omitted[e] {
			return false
		}
		switch n := n.(type) {
		case *ast.ImportSpec, *ast.ArrayType:
			return false
		case *ast.GenDecl:
			return n.Tok != token.CONST
		case *ast.CallExpr:
			if arg := immaterial(n); arg != nil {
				omitted[arg] = true
			}
		case *ast.BinaryExpr:
			for _, op := range swaps[n.Op] {
				add(n, func() { n.Op = op }, func(on string, text func(ast.Node) string) string {
					return chooseOperator(n, info, on, text)
				})
			}
		case *ast.IncDecStmt:
			add(n, func() { n.Tok = token.INC + token.DEC - n.Tok }, func(on string, text func(ast.Node) string) string {
				function := map[token.Token]string{token.INC: "add_", token.DEC: "sub_"}[n.Tok]
				return fmt.Sprintf("%s = %s(%s, %[1]s, 1)", text(n.X), function, on)
			})
		case *ast.IfStmt:
			cond := n.Cond
			add(cond, func() { n.Cond = &ast.UnaryExpr{Op: token.NOT, X: &ast.ParenExpr{X: n.Cond}} },
				func(on string, text func(ast.Node) string) string { return fmt.Sprintf("((%s) != %s)", text(cond), on) })
		case *ast.BasicLit:
			if value, err := strconv.Atoi(n.Value); err == nil && n.Kind == token.INT {
				old := n.Value
				add(n, func() { n.Value = strconv.Itoa(value + 1) }, func(on string, _ func(ast.Node) string) string {
					return fmt.Sprintf("lit_[%s](%s, %s)", typeName(n, info), on, old)
				})
			}
		case *ast.ReturnStmt: // drop an error
			if len(n.Results) > 0 {
				last := n.Results[len(n.Results)-1]
				if call, is := last.(*ast.CallExpr); is && types.ExprString(call.Fun) == "fmt.Errorf" {
					return false // the other results have no meaning
				}
				id, _ := last.(*ast.Ident)
				if id != nil && (id.Name == "err" || id.Name == "false") {
					for _, result := range n.Results {
						if _, is := result.(*ast.BasicLit); is {
							omitted[result] = true
						}
					}
				}
				if id != nil && id.Name == "err" {
					add(id, func() { id.Name = "nil" }, func(on string, _ func(ast.Node) string) string {
						return fmt.Sprintf("err_(%s, err)", on)
					})
				}
			}
		}
		return true
	})
	return sites
}

// immaterial returns the argument of a call that only reserves memory or has a meaningless value, or nil.
func immaterial(call *ast.CallExpr) ast.Expr {
	switch types.ExprString(call.Fun) {
	case "make":
		_, list := call.Args[0].(*ast.ArrayType)
		if last := len(call.Args) - 1; last == 2 || last == 1 && !list {
			return call.Args[last]
		}
	case "bufio.NewReaderSize", "bufio.NewWriterSize", "slices.Grow":
		return call.Args[1]
	case "math.Inf":
		return call.Args[0] // only its sign counts
	}
	return nil
}

// chooseOperator returns a binary expression whose operator is chosen by on, for the mutations in swaps: == and !=
// replace each other, and so do && and ||, < and <=, > and >=, + and -, and * and /.
func chooseOperator(n *ast.BinaryExpr, info *types.Info, on string, text func(ast.Node) string) string {
	a, b := text(n.X), text(n.Y)
	switch n.Op {
	case token.EQL, token.NEQ:
		return fmt.Sprintf("(((%s) %s (%s)) != %s)", a, n.Op, b, on)
	case token.LSS, token.GTR:
		return fmt.Sprintf("((%s) %s (%s) || %s && (%[1]s) == (%[3]s))", a, n.Op, b, on)
	case token.LEQ, token.GEQ:
		return fmt.Sprintf("((%s) %s (%s) && !(%s && (%[1]s) == (%[3]s)))", a, n.Op, b, on)
	case token.LAND:
		return fmt.Sprintf("(%s && ((%s) || (%s)) || !%[1]s && (%[2]s) && (%[3]s))", on, a, b)
	case token.LOR:
		return fmt.Sprintf("(%s && (%s) && (%s) || !%[1]s && ((%[2]s) || (%[3]s)))", on, a, b)
	}
	if n.Op == token.QUO && info.Types[n].Value != nil {
		return "" // a constant may be divided as an integer and used as a float
	}
	function := map[token.Token]string{token.ADD: "add_", token.SUB: "sub_", token.MUL: "mul_", token.QUO: "quo_"}[n.Op]
	return fmt.Sprintf("%s[%s](%s, %s, %s)", function, typeName(n, info), on, a, b)
}

// typeName returns the type of an expression as the file can write it.
func typeName(e ast.Expr, info *types.Info) string {
	t := info.Types[e].Type
	if t == nil {
		return "int"
	}
	return types.TypeString(types.Default(t), func(p *types.Package) string {
		if p.Path() == ownPath {
			return ""
		}
		return p.Name()
	})
}
