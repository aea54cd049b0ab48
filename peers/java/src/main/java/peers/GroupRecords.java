package peers;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters;
import org.apache.kafka.tools.consumer.CoordinatorRecordMessageFormatter;

/**
 * A formatter of the console consumer for every kind of record in __consumer_offsets, by Kafka's own schemas. Kafka
 * ships formatters for offsets and for classic groups only.
 */
public final class GroupRecords extends CoordinatorRecordMessageFormatter {
    public GroupRecords() {
        super(new GroupCoordinatorRecordSerde());
    }

    @Override
    protected boolean isRecordTypeAllowed(short type) {
        return true;
    }

    @Override
    protected JsonNode keyAsJson(ApiMessage key) {
        return CoordinatorRecordJsonConverters.writeRecordKeyAsJson(key);
    }

    @Override
    protected JsonNode valueAsJson(ApiMessage value, short version) {
        return CoordinatorRecordJsonConverters.writeRecordValueAsJson(value, version);
    }
}
