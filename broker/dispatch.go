package broker

import "github.com/rondo-streams/rondo/internal/wire"

// handler serves one API. It must not block; it answers through the request,
// now or later.
type handler func(*Broker, *request)

// api is one row of the dispatch table.
type api struct {
	key    int16
	handle handler
}

// ownAPIs are those of the data path, of metadata and of administration;
// groupAPIs (coordinator_apis.go) lists those of the group coordinator.
func ownAPIs() []api {
	return []api{
		{wire.Produce, (*Broker).handleProduce},
		{wire.Fetch, (*Broker).handleFetch},
		{wire.ListOffsets, (*Broker).handleListOffsets},
		{wire.Metadata, (*Broker).handleMetadata},
		{wire.FindCoordinator, (*Broker).handleFindCoordinator},
		{wire.SASLHandshake, (*Broker).handleSASLHandshake},
		{wire.APIVersions, (*Broker).handleAPIVersions},
		{wire.CreateTopics, (*Broker).handleCreateTopics},
		{wire.DeleteTopics, (*Broker).handleDeleteTopics},
		{wire.DeleteRecords, (*Broker).handleDeleteRecords},
		{wire.InitProducerID, (*Broker).handleInitProducerID},
		{wire.OffsetForLeaderEpoch, (*Broker).handleOffsetForLeaderEpoch},
		{wire.DescribeACLs, (*Broker).handleDescribeACLs},
		{wire.CreateACLs, (*Broker).handleCreateACLs},
		{wire.DeleteACLs, (*Broker).handleDeleteACLs},
		{wire.DescribeConfigs, (*Broker).handleDescribeConfigs},
		{wire.AlterConfigs, (*Broker).handleAlterConfigs},
		{wire.AlterReplicaLogDirs, (*Broker).handleAlterReplicaLogDirs},
		{wire.DescribeLogDirs, (*Broker).handleDescribeLogDirs},
		{wire.SASLAuthenticate, (*Broker).handleSASLAuthenticate},
		{wire.CreatePartitions, (*Broker).handleCreatePartitions},
		{wire.CreateDelegationToken, (*Broker).handleCreateDelegationToken},
		{wire.RenewDelegationToken, (*Broker).handleRenewDelegationToken},
		{wire.ExpireDelegationToken, (*Broker).handleExpireDelegationToken},
		{wire.DescribeDelegationToken, (*Broker).handleDescribeDelegationToken},
		{wire.ElectLeaders, (*Broker).handleElectLeaders},
		{wire.IncrementalAlterConfigs, (*Broker).handleIncrementalAlterConfigs},
		{wire.AlterPartitionReassignments, (*Broker).handleAlterPartitionReassignments},
		{wire.ListPartitionReassignments, (*Broker).handleListPartitionReassignments},
		{wire.DescribeClientQuotas, (*Broker).handleDescribeClientQuotas},
		{wire.DescribeUserSCRAMCredentials, (*Broker).handleDescribeUserSCRAMCredentials},
		{wire.DescribeQuorum, (*Broker).handleDescribeQuorum},
		{wire.UpdateFeatures, (*Broker).handleUpdateFeatures},
		{wire.DescribeCluster, (*Broker).handleDescribeCluster},
		{wire.DescribeProducers, (*Broker).handleDescribeProducers},
		{wire.DescribeTransactions, (*Broker).handleDescribeTransactions},
		{wire.ListTransactions, (*Broker).handleListTransactions},
		{wire.ListConfigResources, (*Broker).handleListConfigResources},
		{wire.DescribeTopicPartitions, (*Broker).handleDescribeTopicPartitions},
	}
}

// served is a row of the table in use: an API of Kafka 4.2 with its handler.
type served struct {
	wire.API
	handle handler
}

// dispatch is the table of the APIs that this broker serves, by key. The
// ranges of versions are Kafka's, whole: an API is there in every version that
// Kafka 4.2 advertises, or not at all.
func dispatch() map[int16]served {
	handlers := map[int16]handler{}
	for _, a := range append(ownAPIs(), groupAPIs()...) {
		handlers[a.key] = a.handle
	}
	table := map[int16]served{}
	for _, a := range wire.Kafka42() {
		if h, ok := handlers[a.Key]; ok {
			table[a.Key] = served{API: a, handle: h}
		}
	}
	return table
}
