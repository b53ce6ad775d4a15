import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import java.util.stream.Collectors;
import software.amazon.kinesis.retrieval.AggregatorUtil;
import software.amazon.kinesis.retrieval.KinesisClientRecord;

/**
 * KCL's AggregatorUtil on stdin and stdout. An input line is {@code START END DATA}: the shard's hash range and a stream record's
 * data in base64. The output line has its user records, {@code SUB_SEQUENCE_NUMBER:KEY:EXPLICIT_HASH_KEY:DATA} with text and data in base64 and
 * "-" for no explicit hash key, or {@code raised CLASS}.
 */
public final class Deaggregator {
    private static final String PARTITION_KEY = "the record's own";

    private Deaggregator() {}

    public static void main(String[] arguments) throws Exception {
        AggregatorUtil util = new AggregatorUtil();
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(deaggregated(util, line.split(" ")));
        }
        out.flush();
    }

    private static String deaggregated(AggregatorUtil util, String[] fields) {
        KinesisClientRecord record = KinesisClientRecord.builder()
                .data(ByteBuffer.wrap(Base64.getDecoder().decode(fields.length > 2 ? fields[2] : "")))
                .partitionKey(PARTITION_KEY)
                .sequenceNumber("1")
                .build();
        try {
            return util.deaggregate(List.of(record), new BigInteger(fields[0]), new BigInteger(fields[1])).stream()
                    .map(Deaggregator::shown)
                    .collect(Collectors.joining(" "));
        } catch (Throwable raised) {
            return "raised " + raised.getClass().getName();
        }
    }

    private static String shown(KinesisClientRecord record) {
        byte[] data = new byte[record.data().remaining()];
        record.data().duplicate().get(data);
        String explicit = record.explicitHashKey();
        return record.subSequenceNumber() + ":" + base64(record.partitionKey().getBytes(StandardCharsets.UTF_8)) + ":"
                + (explicit == null ? "-" : base64(explicit.getBytes(StandardCharsets.UTF_8))) + ":" + base64(data);
    }

    private static String base64(byte[] bytes) {
        return Base64.getEncoder().encodeToString(bytes);
    }
}
