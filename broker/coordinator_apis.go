package broker

// groupAPIs lists the APIs of the group coordinator.
func groupAPIs() []api { return nil }
