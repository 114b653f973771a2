// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"strconv"
	"strings"
)

// replacements are what operators become: comparisons lose or gain their bound, signs
// turn round, and the rest becomes what it is confused with.
var replacements = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL, token.REM: token.MUL,
	token.SHL: token.SHR, token.SHR: token.SHL, token.AND: token.OR, token.OR: token.AND, token.XOR: token.AND,
	token.AND_NOT: token.AND, token.LAND: token.LOR, token.LOR: token.LAND,
	token.ADD_ASSIGN: token.SUB_ASSIGN, token.SUB_ASSIGN: token.ADD_ASSIGN,
	token.MUL_ASSIGN: token.QUO_ASSIGN, token.QUO_ASSIGN: token.MUL_ASSIGN,
	token.SHL_ASSIGN: token.SHR_ASSIGN, token.SHR_ASSIGN: token.SHL_ASSIGN,
	token.AND_ASSIGN: token.OR_ASSIGN, token.OR_ASSIGN: token.AND_ASSIGN, token.XOR_ASSIGN: token.AND_ASSIGN,
	token.INC: token.DEC, token.DEC: token.INC,
}

// names are identifiers that become others.
var names = map[string]string{"min": "max", "max": "min", "true": "false", "false": "true"}

// adder takes a mistake: the text between two places becomes another.
type adder func(from, to token.Pos, text, what string)

// mistakesAt adds the mistakes that can be made at one node; source returns the text
// of a node.
func mistakesAt(n ast.Node, source func(ast.Node) string, add adder) {
	operator := func(at token.Pos, op token.Token) {
		if other, ok := replacements[op]; ok {
			add(at, at+token.Pos(len(op.String())), other.String(), fmt.Sprintf("%v becomes %v", op, other))
		}
	}
	switch n := n.(type) {
	case *ast.BinaryExpr:
		operator(n.OpPos, n.Op)
	case *ast.UnaryExpr:
		if n.Op == token.SUB || n.Op == token.NOT || n.Op == token.XOR {
			add(n.Pos(), n.X.Pos(), "", n.Op.String()+" removed")
		}
	case *ast.BasicLit:
		if text, ok := otherConstant(n); ok {
			add(n.Pos(), n.End(), text, n.Value+" becomes "+text)
		}
	case *ast.Ident:
		if other, ok := names[n.Name]; ok {
			add(n.Pos(), n.End(), other, n.Name+" becomes "+other)
		}
	case *ast.IncDecStmt:
		operator(n.TokPos, n.Tok)
	case *ast.AssignStmt:
		operator(n.TokPos, n.Tok)
	}
	for _, cond := range conditions(n) {
		negate(cond, source, add)
	}
	removals(n, source, add)
}

// conditions returns the conditions of a statement.
func conditions(n ast.Node) (all []ast.Expr) {
	switch n := n.(type) {
	case *ast.IfStmt:
		all = append(all, n.Cond)
	case *ast.ForStmt:
		if n.Cond != nil {
			all = append(all, n.Cond)
		}
	case *ast.SwitchStmt:
		if n.Tag == nil {
			for _, c := range n.Body.List {
				all = append(all, c.(*ast.CaseClause).List...)
			}
		}
	}
	return all
}

// otherConstant returns another number: a small one plus 1, a large one doubled,
// because the last digit of a limit of 10 s means nothing to anyone.
func otherConstant(n *ast.BasicLit) (text string, ok bool) {
	switch n.Kind {
	case token.INT:
		v, err := strconv.ParseUint(n.Value, 0, 63)
		switch {
		case err != nil:
			return "", false
		case v < 100:
			return strconv.FormatUint(v+1, 10), true
		}
		return strconv.FormatUint(2*v, 10), true
	case token.FLOAT:
		return "2*" + n.Value, true
	}
	return "", false
}

// negate adds a condition turned into its opposite. Comparisons for equality are
// negated by their operator already.
func negate(cond ast.Expr, source func(ast.Node) string, add adder) {
	switch c := cond.(type) {
	case *ast.BinaryExpr:
		if c.Op == token.EQL || c.Op == token.NEQ {
			return
		}
	case *ast.UnaryExpr:
		if c.Op == token.NOT {
			return
		}
	}
	add(cond.Pos(), cond.End(), "!("+source(cond)+")", "negated: "+short(source(cond)))
}

// removals adds the removal of each statement of a block.
func removals(n ast.Node, source func(ast.Node) string, add adder) {
	var list []ast.Stmt
	switch n := n.(type) {
	case *ast.BlockStmt:
		list = n.List
	case *ast.CaseClause:
		list = n.Body
	case *ast.CommClause:
		list = n.Body
	}
	for _, s := range list {
		switch s := s.(type) {
		case *ast.DeclStmt, *ast.EmptyStmt, *ast.LabeledStmt, *ast.BlockStmt, *ast.RangeStmt, *ast.ForStmt,
			*ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
			continue // what is in them is removed one by one
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue // does not compile
			}
		}
		add(s.Pos(), s.End(), "", "removed: "+short(source(s)))
	}
}

// short returns the first line of a text.
func short(text string) string {
	line, _, more := strings.Cut(text, "\n")
	if more {
		line += " ..."
	}
	return line
}
