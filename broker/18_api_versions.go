package broker

import (
	"regexp"

	"github.com/rondo-streams/rondo/internal/wire"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// feature is a row of the table of features (Feature.java of Kafka 4.2).
type feature struct {
	name      string
	min, max  int16
	finalized int16 // 0: supported only
	needs     int16 // the API without which the feature would be a lie
}

// features lists what Kafka 4.2.0 says after a fresh start. A feature whose
// API is not served is left out: clients decide by it.
func (b *Broker) features() []feature {
	all := []feature{
		{"eligible.leader.replicas.version", 0, 1, 1, wire.Metadata},
		{"group.version", 0, 1, 1, 68},
		{"kraft.version", 0, 1, 0, wire.Metadata},
		{"metadata.version", 7, 29, 29, wire.Metadata},
		{"share.version", 0, 1, 1, 76},
		{"streams.version", 0, 1, 1, 88},
		{"transaction.version", 0, 2, 2, 26},
	}
	served := all[:0]
	for _, f := range all {
		if _, ok := b.table[f.needs]; ok {
			served = append(served, f)
		}
	}
	return served
}

// clientSoftware is what names and versions of client software look like
// (ApiVersionsRequest.java).
func clientSoftware(s string) bool {
	ok, err := regexp.MatchString(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`, s)
	return ok && err == nil
}

// handleAPIVersions answers which APIs there are and in which versions.
func (b *Broker) handleAPIVersions(rq *request) {
	resp := kmsg.NewPtrApiVersionsResponse()
	if rq.unknownVersion {
		// The one answer to a request that is newer than the broker: v0, so
		// that every client can read it and come again (KIP-511).
		resp.ErrorCode = kerr.UnsupportedVersion.Code
		own := b.table[wire.APIVersions]
		resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: own.Key, MinVersion: own.Min, MaxVersion: own.Max})
		rq.replyVersion(resp, 0)
		return
	}
	msg := rq.msg.(*kmsg.ApiVersionsRequest)
	if rq.version >= 3 && !(clientSoftware(msg.ClientSoftwareName) && clientSoftware(msg.ClientSoftwareVersion)) {
		resp.ErrorCode = kerr.InvalidRequest.Code
		rq.reply(resp)
		return
	}
	for _, a := range wire.Kafka42() {
		if _, ok := b.table[a.Key]; ok {
			k := kmsg.NewApiVersionsResponseApiKey()
			k.ApiKey, k.MinVersion, k.MaxVersion = a.Key, a.Min, a.Max
			resp.ApiKeys = append(resp.ApiKeys, k)
		}
	}
	resp.FinalizedFeaturesEpoch = b.catalog().version
	for _, f := range b.features() {
		if f.min > 0 || rq.version >= 4 { // a minimum of 0 breaks clients of v3 (KAFKA-17011)
			s := kmsg.NewApiVersionsResponseSupportedFeature()
			s.Name, s.MinVersion, s.MaxVersion = f.name, f.min, f.max
			resp.SupportedFeatures = append(resp.SupportedFeatures, s)
		}
		if f.finalized > 0 {
			s := kmsg.NewApiVersionsResponseFinalizedFeature()
			s.Name, s.MinVersionLevel, s.MaxVersionLevel = f.name, f.finalized, f.finalized
			resp.FinalizedFeatures = append(resp.FinalizedFeatures, s)
		}
	}
	rq.reply(resp)
}
