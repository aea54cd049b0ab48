package broker

import (
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// How a feature may be changed (FeatureUpdate.java).
const (
	upgradeOnly     = 1
	safeDowngrade   = 2
	unsafeDowngrade = 3
)

// handleUpdateFeatures accepts what is so already. The levels of this broker
// are part of its program: a change that Kafka would make is refused.
func (b *Broker) handleUpdateFeatures(rq *request) {
	msg := rq.msg.(*kmsg.UpdateFeaturesRequest)
	resp := kmsg.NewPtrUpdateFeaturesResponse()
	for _, u := range msg.FeatureUpdates {
		kind := u.UpgradeType
		if rq.version == 0 {
			kind = upgradeOnly
			if u.AllowDowngrade {
				kind = safeDowngrade
			}
		}
		if why := b.checkFeature(u.Feature, u.MaxVersionLevel, kind); why != "" {
			f := fail(kerr.InvalidUpdateVersion, "The update failed for all features since the following feature had an error: Invalid update version %d for feature %s. %s", u.MaxVersionLevel, u.Feature, why)
			resp.ErrorCode, resp.ErrorMessage, resp.Results = f.code, &f.text, nil
			break
		}
		r := kmsg.NewUpdateFeaturesResponseResult()
		r.Feature, r.ErrorMessage = u.Feature, kmsg.StringPtr("NONE")
		resp.Results = append(resp.Results, r)
	}
	rq.reply(resp)
}

// checkFeature is in the order of FeatureControlManager.updateFeature.
func (b *Broker) checkFeature(name string, level int16, kind int8) string {
	all := b.features()
	i := slices.IndexFunc(all, func(f feature) bool { return f.name == name })
	switch {
	case kind < upgradeOnly || kind > unsafeDowngrade:
		return "The controller does not support the given upgrade type."
	case level < 0:
		return "A feature version cannot be less than 0."
	case i < 0:
		return "Local controller " + b.nodeName() + " does not support this feature."
	}
	f := all[i]
	switch {
	case level != 0 && (level < f.min || level > f.max), level == 0 && f.min > 0:
		return "Local controller " + b.nodeName() + " only supports versions " + strconv.Itoa(int(f.min)) + "-" + strconv.Itoa(int(f.max))
	case level < f.finalized && kind == upgradeOnly:
		return "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
	case level != f.finalized:
		return "The levels of features are fixed in this broker: " + name + " is at " + strconv.Itoa(int(f.finalized)) + "."
	}
	return ""
}
