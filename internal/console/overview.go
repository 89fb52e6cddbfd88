package console

import "github.com/postrider/postrider/internal/web"

func (p *pages) overview(v *web.Visit) error {
	return v.Show(web.Page{Name: "overview", Title: "Overview", Section: "overview", Charts: true, Data: nil})
}
