package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

func TestProperties(t *testing.T) {
	datadriven.RunTest(t, "testdata/properties.txt", func(t *testing.T, d *datadriven.TestData) string {
		switch d.Cmd {
		case "read":
			properties, err := parseProperties([]byte(d.Input))
			if err != nil {
				return err.Error() + "\n"
			}
			return list(properties)
		case "environ":
			known := strings.Fields("max.poll.interval.ms client.id some_name some-name")
			return list(environProperties(strings.Fields(d.Input), known))
		case "nearest":
			known := strings.Fields("acks linger.ms max.poll.interval.ms max.poll.records session.timeout.ms")
			var out strings.Builder
			for name := range strings.FieldsSeq(d.Input) {
				fmt.Fprintf(&out, "%s: %s\n", name, unknownHint(name, known))
			}
			return out.String()
		}
		t.Fatalf("unknown command %s", d.Cmd)
		return ""
	})
}

func list(properties map[string]string) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		fmt.Fprintf(&out, "%q = %q\n", name, properties[name])
	}
	return out.String()
}

func FuzzParseProperties(f *testing.F) {
	f.Add([]byte("a=b\nc: d\\\n e\n# x\n\\u0041 = \\t"))
	f.Add([]byte("a\\=b=c\\\\\r\n!\n  =\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		properties, err := parseProperties(data)
		if err != nil {
			return
		}
		if _, ok := properties[""]; ok {
			t.Fatalf("%q has a property without a name", data)
		}
	})
}

func FuzzParseRecorded(f *testing.F) {
	f.Add([]byte(`{"topic":"t","partition":1,"offset":2,"ts":3,"headers":["a","b"],"key":"k","payload":null}`))
	f.Add([]byte(`{"ts":-1,"headers_base64":["a","AA=="],"key_base64":"/w==","payload":"x"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		_, r, err := parseRecorded(line)
		if err != nil {
			return
		}
		second := record(r)
		for i := range r.Headers {
			if r.Headers[i].Key == "" {
				return
			}
		}
		if string(bytesOf(second.Key, second.KeyBase64)) != string(r.Key) || string(bytesOf(second.Payload, second.PayloadBase64)) != string(r.Value) {
			t.Fatalf("%s does not come back from %+v", line, second)
		}
	})
}

func FuzzFormat(f *testing.F) {
	f.Add(`%t %p %o %k %s %T %h\n`)
	f.Add(`%h{%k=%v} %h %% %{ \x41 %v{base64}`)
	f.Add(`%h{`)
	f.Fuzz(func(t *testing.T, layout string) {
		form, err := newFormat(layout)
		if err != nil {
			return
		}
		_, r, err := parseRecorded([]byte(`{"ts":1,"headers":["a","b"],"key":"k","payload":"v"}`))
		if err != nil {
			t.Fatal(err)
		}
		form(nil, r)
	})
}
