package main

import "context"

type demoCmd struct{}

// Run runs the demonstration.
func (c *demoCmd) Run(ctx context.Context, t *terminal) error { return nil }

type instanceCmd struct{}

// Run runs one instance of the demonstration.
func (c *instanceCmd) Run(ctx context.Context, t *terminal) error { return nil }
