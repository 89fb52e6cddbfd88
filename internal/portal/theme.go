package portal

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// colour is one in sRGB, each part 0 to 1.
type colour [3]float64

// The grounds that the accent stands on in the stylesheet (--sheet, --ground, --sunk), and what is written on it.
var (
	lightGrounds = []colour{colourOf("#ffffff"), colourOf("#faf9f7"), colourOf("#f2f0ec")}
	darkGrounds  = []colour{colourOf("#1d1f23"), colourOf("#16171a"), colourOf("#131417")}
	lightInk     = colourOf("#ffffff")
	darkInk      = colourOf("#0d1526")
)

// readable is the contrast that text needs, WCAG 2.2, 1.4.3.
const readable = 4.5

// theme is a stylesheet that puts a colour in the place of the accent: "#rrggbb", or "" for none.
func theme(accent string) string {
	if accent == "" {
		return ":root{}\n"
	}
	given := colourOf(accent)
	light, lightSoft := fit(given, colour{}, lightGrounds, lightInk, 0.1)
	dark, darkSoft := fit(given, colour{1, 1, 1}, darkGrounds, darkInk, 0.18)
	return fmt.Sprintf(":root{--accent:light-dark(%s,%s);--accent-ink:light-dark(%s,%s);--accent-soft:light-dark(%s,%s)}\n",
		light, dark, lightInk, darkInk, lightSoft, darkSoft)
}

// fit mixes a colour towards black or white, as little as it takes, until it can be read on all grounds and on its own soft
// shade, and its ink on it.
func fit(c, towards colour, grounds []colour, ink colour, softness float64) (fitted, soft colour) {
	const steps = 64
	for i := range steps + 1 {
		fitted = mix(c, towards, float64(i)/steps)
		soft = mix(grounds[0], fitted, softness)
		good := contrast(fitted, ink) >= readable && contrast(fitted, soft) >= readable
		for _, g := range grounds {
			good = good && contrast(fitted, g) >= readable
		}
		if good {
			break
		}
	}
	return fitted, soft
}

// mix gives what lies between two colours, in the steps that a stylesheet can name: what is measured is what is shown.
func mix(a, b colour, share float64) (m colour) {
	for i := range m {
		m[i] = math.Round((a[i]+(b[i]-a[i])*share)*255) / 255
	}
	return m
}

// contrast is WCAG 2.2's ratio of two colours, 1 to 21.
func contrast(a, b colour) float64 {
	high, low := luminance(a), luminance(b)
	if high < low {
		high, low = low, high
	}
	return (high + 0.05) / (low + 0.05)
}

func luminance(c colour) float64 {
	linear := func(x float64) float64 {
		if x <= 0.04045 {
			return x / 12.92
		}
		return math.Pow((x+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(c[0]) + 0.7152*linear(c[1]) + 0.0722*linear(c[2])
}

func (c colour) String() string {
	return fmt.Sprintf("#%02x%02x%02x", int(math.Round(c[0]*255)), int(math.Round(c[1]*255)), int(math.Round(c[2]*255)))
}

// colourOf reads #rrggbb. The configuration was checked; anything else is a mistake in the program.
func colourOf(text string) (c colour) {
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "#"), 16, 24)
	if err != nil || len(text) != len("#rrggbb") {
		panic("portal: no colour: " + text)
	}
	for i := range c {
		c[i] = float64(n>>(16-8*i)&0xff) / 255
	}
	return c
}
