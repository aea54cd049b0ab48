//go:build synctests

package rondo_test

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/rondo-streams/rondo"
	"github.com/rondo-streams/rondo/internal/memnet"
)

// TestSASL: an application logs in with each mechanism, as member, consumer and
// producer, and with a wrong password it ends.
func TestSASL(t *testing.T) {
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		t.Run(mechanism, func(t *testing.T) {
			memnet.Bubble(t, func(t *testing.T) {
				n := memnet.New(time.Millisecond)
				c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ListenFn(n.Listen), kfake.SleepOutOfOrder(), kfake.EnableSASL(),
					kfake.Superuser("PLAIN", "root", "root"), kfake.User(mechanism, "alice", `a "b" \c`))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(c.Close)
				w := newWorld(t, c.ListenAddrs(), n.Dialer("app"), kgo.SASL(plain.Auth{User: "root", Pass: "root"}.AsMechanism()))
				svc := &service{act: after(time.Millisecond)}
				s := w.scorer("sasl", 2, svc)
				w.fill(s.in, 2, 0, 10, one)
				as := func(jaas string) []rondo.Option {
					return []rondo.Option{rondo.Set("security.protocol", "SASL_PLAINTEXT"), rondo.Set("sasl.mechanism", mechanism), rondo.Set("sasl.jaas.config", jaas)}
				}
				app := w.run(w.build(s), as(`org.example.AnyLoginModule required username="alice" password="a \"b\" \\c";`)...)
				eventually(t, time.Minute, "all done", func() bool { return sum(w.committed(s.group, s.in)) == 10 })
				app.stop()
				wrong, err := rondo.NewApp(w.build(s), append(as(`LoginModule required username=alice password=guess;`), rondo.Bootstrap(w.boot...), rondo.WithDialer(w.dial), rondo.WithLogger(w.log))...)
				if err != nil {
					t.Fatal(err)
				}
				if err := wrong.Run(context.Background()); err == nil {
					t.Error("it ran with a wrong password")
				}
			})
		})
	}
}
