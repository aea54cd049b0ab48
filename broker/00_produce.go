package broker

// firstProduce is the first version of Produce that is served. Lower ones are
// advertised all the same, since old librdkafka takes their absence for a
// broker without compression (KAFKA-18659).
const firstProduce = 3
