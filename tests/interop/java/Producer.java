import com.google.common.util.concurrent.ListenableFuture;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import software.amazon.kinesis.producer.KinesisProducer;
import software.amazon.kinesis.producer.KinesisProducerConfiguration;
import software.amazon.kinesis.producer.UserRecordResult;

/**
 * The KPL: {@code Producer STREAM PORT FOLDER PREFIX KEYS COUNT A_SECOND} puts COUNT user records through a TLS port on this
 * machine, with KEYS keys in turn, and prints the text of each acknowledged record, {@code <key>/<running number of the key>}.
 * The KPL unpacks its native program to FOLDER, 89 MB.
 */
public final class Producer {
    private Producer() {}

    public static void main(String[] arguments) throws Exception {
        String stream = arguments[0];
        int keys = Integer.parseInt(arguments[4]);
        int count = Integer.parseInt(arguments[5]);
        int aSecond = Integer.parseInt(arguments[6]);
        KinesisProducer producer = new KinesisProducer(configuration(Long.parseLong(arguments[1]), arguments[2]));
        Map<String, ListenableFuture<UserRecordResult>> results = new LinkedHashMap<>();
        long began = System.nanoTime();
        for (int n = 0; n < count; n++) {
            String key = arguments[3] + n % keys;
            String text = key + "/" + n / keys;
            results.put(text, producer.addUserRecord(stream, key, ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8))));
            TimeUnit.NANOSECONDS.sleep(began + TimeUnit.SECONDS.toNanos(n) / aSecond - System.nanoTime());
        }
        producer.flushSync();
        for (Map.Entry<String, ListenableFuture<UserRecordResult>> result : results.entrySet()) {
            result.getValue().get(60, TimeUnit.SECONDS);
            System.out.println(result.getKey());
        }
        producer.destroy();
        System.exit(0);
    }

    private static KinesisProducerConfiguration configuration(long port, String folder) {
        return new KinesisProducerConfiguration()
                .setRegion(System.getenv("AWS_REGION"))
                .setKinesisEndpoint("127.0.0.1")
                .setKinesisPort(port)
                .setCloudwatchEndpoint("127.0.0.1")
                .setCloudwatchPort(port)
                .setStsEndpoint("127.0.0.1")
                .setStsPort(port)
                .setVerifyCertificate(false)
                .setMetricsLevel("none")
                .setRecordMaxBufferedTime(200)
                .setRecordTtl(60_000)
                .setRequestTimeout(20_000)
                .setTempDirectory(Path.of(folder).toAbsolutePath().toString());
    }
}
