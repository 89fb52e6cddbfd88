package web

import (
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"strings"
)

//go:embed all:templates
var shared embed.FS

// parse makes a template for each page: what both sites share, the site's layout and its own shared parts, and the page.
func parse(o Options) map[string]*template.Template {
	common := template.New("").Funcs(funcs(o)).Funcs(o.Funcs)
	common = template.Must(common.ParseFS(shared, "templates/_*.html"))
	common = template.Must(common.ParseFS(o.Templates, "layout.html"))
	if own, err := fs.Glob(o.Templates, "_*.html"); err == nil && len(own) > 0 {
		common = template.Must(common.ParseFS(o.Templates, own...))
	}
	pages := map[string]*template.Template{}
	add := func(files fs.FS, name string) {
		t := template.Must(template.Must(common.Clone()).ParseFS(files, name))
		pages[strings.TrimSuffix(path.Base(name), ".html")] = t
	}
	add(shared, "templates/fault.html")
	names, err := fs.Glob(o.Templates, "*.html")
	if err != nil {
		panic(fmt.Sprintf("web: %v", err))
	}
	for _, name := range names {
		if name != "layout.html" && !strings.HasPrefix(name, "_") {
			add(o.Templates, name)
		}
	}
	return pages
}
