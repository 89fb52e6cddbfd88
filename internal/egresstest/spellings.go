// Package egresstest is what tests of the way out share: every way to write an address inside, a name server, and a listener
// that answers no connect. It is imported by tests alone.
package egresstest

import "strings"

// Inside is every way to write, in a URL, an address or a name that no delivery may reach. Those of this host have the port.
func Inside(port string) []string {
	return withPort(port, []string{
		// This host, in v4: dotted, short, octal, hex, decimal, all mixed.
		"http://127.0.0.1:PORT/", "http://127.1.2.3/", "http://127.1:PORT/", "http://127.0.1:PORT/", "http://0177.0.0.1:PORT/",
		"http://0177.0000.0000.0001:PORT/", "http://0x7f.0.0.1:PORT/", "http://0x7f.0x0.0x0.0x1:PORT/", "http://0X7F.1:PORT/",
		"http://127.0.0.0x1:PORT/", "http://0177.0x0.1:PORT/", "http://2130706433:PORT/", "http://017700000001:PORT/",
		"http://0x7f000001:PORT/", "http://0x7F000001:PORT/", "http://127.0.0.1.:PORT/", "http://0.0.0.0:PORT/", "http://0:PORT/",
		"http://0x0:PORT/", "http://00:PORT/", "http://0.1.2.3/",
		// With digits and dots that IDNA makes plain ones of.
		"http://１２７．０．０．１:PORT/", "http://127。0。0。1:PORT/", "http://127｡0｡0｡1:PORT/", "http://①②⑦.0.0.1:PORT/", "http://１27.1:PORT/",
		"http://127.0.0\u00ad.1:PORT/", "http://%EF%BC%91%EF%BC%92%EF%BC%97.0.0.1:PORT/", "http://0ｘ7f.1:PORT/", "http://２１３０７０６４３３:PORT/",
		// In v6, and v4 inside v6: mapped, compatible, SIIT, NAT64 of both prefixes, 6to4, Teredo, ISATAP.
		"http://[::1]:PORT/", "http://[0:0:0:0:0:0:0:1]:PORT/", "http://[0000:0000::0001]:PORT/", "http://[::]:PORT/",
		"http://[::ffff:127.0.0.1]:PORT/", "http://[::ffff:7f00:1]:PORT/", "http://[0:0:0:0:0:FFFF:7F00:0001]:PORT/",
		"http://[::7f00:1]:PORT/", "http://[::127.0.0.1]:PORT/", "http://[::ffff:0:127.0.0.1]:PORT/", "http://[::ffff:a9fe:a9fe]/",
		"http://[64:ff9b::a9fe:a9fe]/", "http://[64:ff9b::10.0.0.1]/", "http://[64:ff9b:1::7f00:1]/", "http://[64:ff9b:1:ffff::a00:1]/",
		"http://[2002:7f00:1::1]/", "http://[2002:c0a8:101::]/", "http://[2001:0:1:2:3:4:80ff:fffe]/", "http://[2620::5efe:7f00:1]/",
		"http://[2620::200:5efe:a00:1]/", "http://[::1%25lo]:PORT/", "http://[fe80::1%25eth0]/",
		// Names.
		"http://localhost:PORT/", "http://LOCALHOST:PORT/", "http://localhost.:PORT/", "http://x.localhost:PORT/", "http://a.b.LocalHost./",
		"http://ｌｏｃａｌｈｏｓｔ:PORT/", "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ:PORT/", "http://localhoſt:PORT/", "http://metadata/", "http://metadata.google.internal/",
		"http://METADATA.google.internal./", "http://metadata。google。internal/", "http://instance-data/", "http://instance-data.ec2.internal/",
		"http://metadata.goog/", "http://metadata.azure.internal/", "http://metadata.tencentyun.com/",
		// Private, link-local, shared, unique local, site-local.
		"http://10.0.0.1/", "http://012.1/", "http://172.16.0.1/", "http://172.31.255.255/", "http://192.168.0.1/", "http://0300.0250.1/",
		"http://3232235521/", "http://169.254.1.1/", "http://100.64.0.1/", "http://100.127.255.254/", "http://[fd00::1]/", "http://[fc00::1]/",
		"http://[fe80::1]/", "http://[fe81::1]/", "http://[febf::1]/", "http://[fec0::1]/",
		// Metadata services.
		"http://169.254.169.254/", "http://0xa9fea9fe/", "http://2852039166/", "http://169.254.170.2/", "http://168.63.129.16/",
		"http://100.100.100.200/", "http://192.0.0.192/", "http://[fd00:ec2::254]/", "http://[fd20:ce::254]/",
		// Multicast, broadcast, reserved, documentation, benchmarks, discard, relays.
		"http://224.0.0.1/", "http://239.255.255.250/", "http://[ff02::1]/", "http://[ff0e::1]/", "http://255.255.255.255/", "http://240.0.0.1/",
		"http://4294967295/", "http://192.0.0.8/", "http://192.0.2.1/", "http://198.51.100.1/", "http://203.0.113.1/", "http://[2001:db8::1]/",
		"http://[3fff::1]/", "http://198.18.0.1/", "http://198.19.255.255/", "http://[2001:2::1]/", "http://[100::1]/", "http://192.88.99.1/",
		"http://[5f00::1]/", "http://[2001:10::1]/", "http://[4000::1]/", "http://[::2]/",
	})
}

// Tricks are URLs that look as if they went somewhere else, or that one program reads in another way than the next. They are
// refused, be it for their form or for where they lead.
func Tricks(port string) []string {
	return withPort(port, []string{
		"http://user@127.0.0.1:PORT/", "http://example.com@127.0.0.1:PORT/", "http://example.com:80@127.0.0.1:PORT/", "http://127.0.0.1:PORT@example.com/",
		"http://@127.0.0.1:PORT/", "http://example.com\\@127.0.0.1:PORT/", "http://127.0.0.1:PORT\\@example.com/", "http://127.0.0.1:PORT#@example.com/",
		"http://example.com#@127.0.0.1:PORT/", "http:127.0.0.1:PORT/", "http:///127.0.0.1:PORT/", "//127.0.0.1:PORT/", "127.0.0.1:PORT",
		"http://%31%32%37.0.0.1:PORT/", "http://127.0.0.1%00.example.com/", "http://127.0.0.1%2f.example.com/", "http://127.0.0.1\t:PORT/",
		"http://127.0.0.1 :PORT/", " http://127.0.0.1:PORT/", "http://127.0.0.1:PORT\n", "http://127.0.0.256:PORT/", "http://4294967297:PORT/",
		"http://127.0.0.1.1:PORT/", "http://1.2.3.4.5/", "http://0x/", "http://0x7g.1/", "http://08.1/", "http://[127.0.0.1]:PORT/", "http://[::1:PORT/",
		"http://::1:PORT/", "http://[::1]:PORT:80/", "http://[::1]x:PORT/", "http://[::ffff:127.0.0.1%25lo]:PORT/", "http://127.0.0.1:0/",
		"http://127.0.0.1:+80/", "http://127.0.0.1:080/", "http://127.0.0.1:/", "http://127..0.0.1/", "http://.127.0.0.1/", "http://../", "http://*/",
		"ftp://127.0.0.1:PORT/", "gopher://127.0.0.1:PORT/_", "file:///etc/passwd", "unix:///run/x.sock", "HTTP+UNIX://x/", "javascript:alert(1)", "",
	})
}

func withPort(port string, list []string) []string {
	for i, url := range list {
		list[i] = strings.ReplaceAll(url, "PORT", port)
	}
	return list
}
