package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/rondo-streams/rondo/internal/wire"
)

// fresh runs a measurement on a broker of its own, with an empty directory that
// is taken away again.
func fresh(b *broker, name string, run func(*broker) (reading, error)) (reading, error) {
	other := *b
	other.dir, other.pid = b.dir+"-"+name, 0
	b = &other
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return nil, err
	}
	if err := b.start(); err != nil {
		return nil, err
	}
	r, err := run(b)
	if b.pid != 0 {
		err = errors.Join(err, b.stop())
	}
	return r, errors.Join(err, os.RemoveAll(b.dir))
}

// startCell fills a thousand partitions with two million records, and times the
// next two starts, the first after an orderly end, the second after SIGKILL in the
// middle of more: to the first answer, and until every partition says where it
// ends.
func startCell(b *broker, _ float64, rep int) (reading, error) {
	const partitions = 1000
	if rep < 0 {
		return reading{}, nil
	}
	return fresh(b, fmt.Sprintf("full-%d", rep), func(b *broker) (reading, error) {
		if err := newTopic(b, "full", partitions, false); err != nil {
			return nil, err
		}
		if err := fillTopic(b, "full", partitions, 20, 100, 100); err != nil {
			return nil, err
		}
		out := reading{}
		for _, how := range []string{"orderly end", "SIGKILL"} {
			end := b.stop
			if how == "SIGKILL" {
				end = b.kill
				if err := fillTopic(b, "full", partitions, 4, 100, 100); err != nil {
					return nil, err
				}
			}
			err := end()
			if b.pid = 0; err != nil {
				return nil, err
			}
			began := time.Now()
			c, took, err := b.firstAnswer()
			if err != nil {
				return nil, err
			}
			out["first answer after "+how+", ms"] = took
			for err = errors.New("never asked"); err != nil; err = c.ready("full", partitions) {
				if time.Since(began) > 5*time.Minute {
					return nil, fmt.Errorf("not all partitions are served five minutes after the start: %w", err)
				}
				time.Sleep(5 * time.Millisecond)
			}
			out["all served after "+how+", ms"] = time.Since(began).Seconds() * 1e3
			if out["CPU after "+how+", s"], err = cpuSeconds(b.pid); err != nil {
				return nil, err
			}
			c.Close()
		}
		return out, nil
	})
}

// fillTopic writes batches to every partition in turn, as if as many producers
// wrote at once, over 16 connections.
func fillTopic(b *broker, topic string, partitions int32, batches, records, size int) error {
	const conns = 16
	errs := make([]error, conns)
	var wg sync.WaitGroup
	for i := range int32(conns) {
		wg.Go(func() {
			c, err := dial(b.addr)
			if err != nil {
				errs[i] = err
				return
			}
			defer c.Close()
			for range batches {
				for p := i; p < partitions && errs[i] == nil; p += conns {
					answer, err := c.roundTrip(produceFrame(topic, p, records, size))
					if err == nil {
						err = produced(answer)
					}
					errs[i] = err
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// coldCell fills 64 partitions in turn with 512 MB in batches of 16 KB, starts
// the broker anew, and reads every partition from its beginning, one after the
// other: once so that a broker that compiles has done so, and once, which counts,
// with an empty page cache.
func coldCell(b *broker, _ float64, rep int) (reading, error) {
	const partitions, batches, records, size = 64, 512, 16, 1024
	if rep < 0 {
		return reading{}, nil
	}
	return fresh(b, fmt.Sprintf("cold-%d", rep), func(b *broker) (reading, error) {
		if err := newTopic(b, "cold", partitions, false); err != nil {
			return nil, err
		}
		if err := fillTopic(b, "cold", partitions, batches, records, size); err != nil {
			return nil, err
		}
		time.Sleep(2 * time.Second) // what is done in the background after a write is part of no read
		err := b.stop()
		if b.pid = 0; err != nil {
			return nil, err
		}
		if err := b.start(); err != nil {
			return nil, err
		}
		c, err := dial(b.addr)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			if err = c.ready("cold", partitions); err == nil {
				break
			} else if time.Now().After(deadline) {
				return nil, err
			}
		}
		if _, err := drain(b, c, "cold", partitions, batches*records); err != nil {
			return nil, err
		}
		if err := dropCaches(); err != nil {
			return nil, err
		}
		return drain(b, c, "cold", partitions, batches*records)
	})
}

// drain reads a topic to its end and counts.
func drain(b *broker, c *conn, topic string, partitions int32, records int64) (reading, error) {
	before, err := cpuSeconds(b.pid)
	if err != nil {
		return nil, err
	}
	began, read := time.Now(), 0
	for p := range partitions {
		for next := int64(0); next < records; {
			data, err := c.fetch(topic, p, next)
			if err != nil {
				return nil, err
			}
			read += len(data)
			err = wire.EachBatch(data, func(h wire.Header, _ []byte) error {
				next = h.LastOffset() + 1
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
	}
	took := time.Since(began).Seconds()
	after, err := cpuSeconds(b.pid)
	return reading{"MB/s +": float64(read) / took / 1e6, "broker CPU, s a GB": (after - before) / float64(read) * 1e9}, err
}

// dropCaches empties the page cache of the machine, which root alone may do.
func dropCaches() error {
	if err := exec.Command("sync").Run(); err != nil {
		return err
	}
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("1"), 0o200); err != nil {
		return fmt.Errorf("empty the page cache: %w: as root, or leave this cell out", err)
	}
	return nil
}

// kill ends the broker as a power cut would end its process.
func (b *broker) kill() error {
	p, err := os.FindProcess(b.pid)
	if err != nil {
		return err
	}
	if err := p.Kill(); err != nil {
		return err
	}
	if _, err := p.Wait(); err == nil {
		return nil // a child of ours
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if p.Signal(syscall.Signal(0)) != nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d is still there after SIGKILL", b.pid)
		}
	}
}
