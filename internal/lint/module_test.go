package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// `make module` changes only imports. So no other text may name a package of this module: it would keep the old path.
func TestTheModulesPathIsInImportsOnly(t *testing.T) {
	root := os.DirFS("../..")
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.Contains(path, "internal/module") {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if _, imported := n.(*ast.ImportSpec); imported {
				return false
			}
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			text, _ := strconv.Unquote(literal.Value)
			below, ours := strings.CutPrefix(text, module+"/")
			folder, _, _ := strings.Cut(below, "/")
			if _, err := fs.Stat(root, folder); ours && fs.ValidPath(folder) && err == nil {
				t.Errorf("%s: %s: take it from reflect.TypeFor[…]().PkgPath()", files.Position(literal.Pos()), literal.Value)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
