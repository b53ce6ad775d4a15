import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Field;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Instant;
import java.util.Arrays;
import java.util.Date;
import java.util.List;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;

import software.amazon.awssdk.http.Protocol;
import software.amazon.awssdk.http.nio.netty.NettyNioAsyncHttpClient;
import software.amazon.awssdk.services.cloudwatch.CloudWatchAsyncClient;
import software.amazon.awssdk.services.dynamodb.DynamoDbAsyncClient;
import software.amazon.awssdk.services.kinesis.KinesisAsyncClient;
import software.amazon.kinesis.common.ConfigsBuilder;
import software.amazon.kinesis.common.InitialPositionInStream;
import software.amazon.kinesis.common.InitialPositionInStreamExtended;
import software.amazon.kinesis.common.LeaseCleanupConfig;
import software.amazon.kinesis.common.StreamConfig;
import software.amazon.kinesis.common.StreamIdentifier;
import software.amazon.kinesis.coordinator.CoordinatorConfig;
import software.amazon.kinesis.coordinator.Scheduler;
import software.amazon.kinesis.leases.LeaseManagementConfig;
import software.amazon.kinesis.lifecycle.events.InitializationInput;
import software.amazon.kinesis.lifecycle.events.LeaseLostInput;
import software.amazon.kinesis.lifecycle.events.ProcessRecordsInput;
import software.amazon.kinesis.lifecycle.events.ShardEndedInput;
import software.amazon.kinesis.lifecycle.events.ShutdownRequestedInput;
import software.amazon.kinesis.metrics.MetricsLevel;
import software.amazon.kinesis.metrics.NullMetricsFactory;
import software.amazon.kinesis.processor.FormerStreamsLeasesDeletionStrategy;
import software.amazon.kinesis.processor.MultiStreamTracker;
import software.amazon.kinesis.processor.RecordProcessorCheckpointer;
import software.amazon.kinesis.processor.ShardRecordProcessor;
import software.amazon.kinesis.retrieval.KinesisClientRecord;
import software.amazon.kinesis.retrieval.RetrievalConfig;
import software.amazon.kinesis.retrieval.fanout.FanOutConfig;
import software.amazon.kinesis.retrieval.polling.PollingConfig;

/**
 * One KCL worker, 2.x or 3.x depending on the class path: {@code Consumer APPLICATION STREAM WORKER_ID START_POSITION}.
 * STREAM is a name, or several of account:stream:creation epoch with commas between them: then it is a multi-stream worker.
 *
 * <p>It writes handled records to RECORDER_DIRECTORY/PID.jsonl in the format of tests/e2e/handlers/recorder.py, a line a record,
 * before it checkpoints them, and the KCL's other calls to its log. SIGTERM is a graceful shutdown. AWS' endpoint and credentials
 * come from the environment, as for sublet. The KCL's settings are system properties (-Dinterop.NAME=...); settings that a version
 * lacks are ignored.
 */
public final class Consumer {
    private static final Path DIRECTORY = Path.of(System.getenv("RECORDER_DIRECTORY"));
    private static final Path HANDLED = DIRECTORY.resolve(ProcessHandle.current().pid() + ".jsonl");
    private static final Object WRITING = new Object();
    private static final long CHECKPOINT_MILLIS = Long.getLong("interop.checkpointMillis", 0);
    private static final boolean PREPARES = Boolean.getBoolean("interop.prepares");
    /** Whether SubscribeToShard reads, by a consumer with the application's name, which the KCL registers. */
    private static final boolean FANS_OUT = Boolean.getBoolean("interop.fansOut");
    private static final long SHUTDOWN_SECONDS = 45;
    private static final long FINAL_SECONDS = 8;
    private static final AtomicInteger AT_WORK = new AtomicInteger();

    private Consumer() {}

    public static void main(String[] arguments) throws Exception {
        String application = arguments[0];
        String stream = arguments[1];
        String workerId = arguments[2];
        InitialPositionInStreamExtended start = position(arguments[3]);
        URI endpoint = URI.create(System.getenv("AWS_ENDPOINT_URL"));
        KinesisAsyncClient kinesis = KinesisAsyncClient.builder()
                .endpointOverride(URI.create(System.getenv("AWS_ENDPOINT_URL_KINESIS")))
                .httpClientBuilder(NettyNioAsyncHttpClient.builder().protocol(FANS_OUT ? Protocol.HTTP2 : Protocol.HTTP1_1))
                .build();
        DynamoDbAsyncClient dynamoDb =
                DynamoDbAsyncClient.builder().endpointOverride(endpoint).build();
        CloudWatchAsyncClient cloudWatch =
                CloudWatchAsyncClient.builder().endpointOverride(endpoint).build();
        boolean isOfSeveral = stream.contains(":");
        ConfigsBuilder configs = isOfSeveral
                ? new ConfigsBuilder(
                        new Several(stream, start), application, kinesis, dynamoDb, cloudWatch, workerId, Recording::new)
                : new ConfigsBuilder(stream, application, kinesis, dynamoDb, cloudWatch, workerId, Recording::new);
        RetrievalConfig retrieval = configs.retrievalConfig();
        if (!isOfSeveral) {
            retrieval.initialPositionInStreamExtended(start); // of several streams, each has its own
        }
        Scheduler scheduler = new Scheduler(
                configs.checkpointConfig(),
                coordinator(configs.coordinatorConfig()),
                leases(configs.leaseManagementConfig().initialPositionInStream(start)),
                configs.lifecycleConfig(),
                configs.metricsConfig().metricsLevel(MetricsLevel.NONE).metricsFactory(new NullMetricsFactory()),
                configs.processorConfig(),
                retrieval.retrievalSpecificConfig(
                                FANS_OUT
                                        ? new FanOutConfig(kinesis).streamName(stream).applicationName(application)
                                        : polling(isOfSeveral ? new PollingConfig(kinesis) : new PollingConfig(stream, kinesis))));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            tell("asked to stop");
            try {
                tell("stopped gracefully: " + stopped(scheduler));
            } catch (Exception problem) {
                tell("not stopped gracefully: " + problem);
            }
        }));
        scheduler.run();
    }

    private static PollingConfig polling(PollingConfig config) {
        return config.maxRecords(500).idleTimeBetweenReadsInMillis(250);
    }

    /** The streams of a multi-stream worker, each as account:stream:creation epoch, separated by commas. */
    private static final class Several implements MultiStreamTracker {
        private final List<StreamConfig> streams;

        Several(String streams, InitialPositionInStreamExtended start) {
            this.streams = Arrays.stream(streams.split(","))
                    .map(each -> new StreamConfig(StreamIdentifier.multiStreamInstance(each), start))
                    .collect(Collectors.toList());
        }

        @Override
        public List<StreamConfig> streamConfigList() {
            return streams;
        }

        @Override
        public FormerStreamsLeasesDeletionStrategy formerStreamsLeasesDeletionStrategy() {
            return new FormerStreamsLeasesDeletionStrategy.NoLeaseDeletionStrategy();
        }
    }

    /**
     * Waits a few more seconds once every processor knows that its lease is gone. 2.x waits for processors that it never creates:
     * those of shards whose ended leases it has only taken to clean them up.
     */
    private static boolean stopped(Scheduler scheduler) throws Exception {
        Future<Boolean> stopping = scheduler.startGracefulShutdown();
        for (int second = 0; AT_WORK.get() > 0 && !stopping.isDone() && second < SHUTDOWN_SECONDS; second++) {
            TimeUnit.SECONDS.sleep(1);
        }
        return stopping.get(FINAL_SECONDS, TimeUnit.SECONDS);
    }

    private static CoordinatorConfig coordinator(CoordinatorConfig config) throws ReflectiveOperationException {
        config.parentShardPollIntervalMillis(1_000);
        String version = System.getProperty("interop.clientVersion");
        if (version != null) {
            Class<?> kind = Class.forName(CoordinatorConfig.class.getName() + "$ClientVersionConfig");
            set(config, "clientVersionConfig", kind, kind.getField(version).get(null));
        }
        if (Boolean.getBoolean("interop.singleTable")) {
            set(config, "migrateAllEntitiesToLeaseTable", boolean.class, true);
        }
        setLong(config, "tableMigrationCompleteBakeTimeSeconds");
        return config;
    }

    private static LeaseManagementConfig leases(LeaseManagementConfig config) throws ReflectiveOperationException {
        config.failoverTimeMillis(Long.getLong("interop.failoverTimeMillis", 10_000));
        config.maxLeasesToStealAtOneTime(Integer.getInteger("interop.maxLeasesToStealAtOneTime", 1));
        // The worker that creates the first leases idles for this long before it takes any: a minute by default.
        config.shardSyncIntervalMillis(1_000);
        Long cleanup = Long.getLong("interop.leaseCleanupMillis");
        if (cleanup != null) {
            // The KCL has no setter for it: ended leases go after five minutes.
            Field field = LeaseManagementConfig.class.getDeclaredField("leaseCleanupConfig");
            field.setAccessible(true);
            field.set(
                    config,
                    LeaseCleanupConfig.builder()
                            .leaseCleanupIntervalMillis(cleanup)
                            .completedLeaseCleanupIntervalMillis(cleanup)
                            .garbageLeaseCleanupIntervalMillis(cleanup)
                            .build());
        }
        setLong(config, "dynamoDbLockBasedLeaderLeaseDurationInMillis");
        setLong(config, "dynamoDbLockBasedLeaderHeartbeatPeriodInMillis");
        Object assignment = get(config, "workerUtilizationAwareAssignmentConfig");
        if (assignment != null) {
            // Its CPU figures come from the metadata address of EC2 or ECS.
            set(assignment, "disableWorkerMetrics", boolean.class, true);
        }
        return config;
    }

    private static void setLong(Object config, String name) throws ReflectiveOperationException {
        Long value = Long.getLong("interop." + name);
        if (value != null) {
            set(config, name, long.class, value);
        }
    }

    /** A setting that some versions lack. */
    private static void set(Object config, String name, Class<?> type, Object value) throws ReflectiveOperationException {
        try {
            config.getClass().getMethod(name, type).invoke(config, value);
        } catch (NoSuchMethodException older) {
            tell("this version has no " + name);
        }
    }

    private static Object get(Object config, String name) throws ReflectiveOperationException {
        try {
            return config.getClass().getMethod(name).invoke(config);
        } catch (NoSuchMethodException older) {
            return null;
        }
    }

    private static InitialPositionInStreamExtended position(String text) {
        String[] kindAndMoment = text.split(":");
        return kindAndMoment.length == 1
                ? InitialPositionInStreamExtended.newInitialPosition(InitialPositionInStream.valueOf(text))
                : InitialPositionInStreamExtended.newInitialPositionAtTimestamp(
                        new Date((long) (Double.parseDouble(kindAndMoment[1]) * 1_000)));
    }

    private static void tell(String what) {
        System.out.println(Instant.now() + " consumer: " + what);
    }

    private static void write(String lines) {
        synchronized (WRITING) {
            try {
                Files.writeString(HANDLED, lines, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            } catch (IOException problem) {
                throw new UncheckedIOException(problem);
            }
        }
    }

    private static String line(String shardId, KinesisClientRecord record) {
        Instant now = Instant.now();
        String data = StandardCharsets.UTF_8.decode(record.data().duplicate()).toString();
        return String.format(
                "[%d%09d, %s, %s, %d, %s, %s]%n",
                now.getEpochSecond(),
                now.getNano(),
                json(shardId),
                json(record.sequenceNumber()),
                record.subSequenceNumber(),
                json(record.partitionKey()),
                json(data));
    }

    private static String json(String text) {
        StringBuilder escaped = new StringBuilder("\"");
        text.chars().forEach(c -> escaped.append(
                c < ' ' || c > '~' || c == '"' || c == '\\' ? String.format("\\u%04x", c) : String.valueOf((char) c)));
        return escaped.append('"').toString();
    }

    private static final class Recording implements ShardRecordProcessor {
        private String shardId;
        private long checkpointedAt = System.nanoTime();

        @Override
        public void initialize(InitializationInput input) {
            shardId = input.shardId();
            AT_WORK.incrementAndGet();
            tell("initialize " + shardId + " at " + input.extendedSequenceNumber());
        }

        @Override
        public void processRecords(ProcessRecordsInput input) {
            if (input.records().isEmpty()) {
                return;
            }
            StringBuilder lines = new StringBuilder();
            input.records().forEach(record -> lines.append(line(shardId, record)));
            write(lines.toString());
            if (System.nanoTime() - checkpointedAt >= TimeUnit.MILLISECONDS.toNanos(CHECKPOINT_MILLIS)) {
                checkpoint(input.checkpointer());
            }
        }

        @Override
        public void leaseLost(LeaseLostInput input) {
            tell("lease lost " + shardId);
            AT_WORK.decrementAndGet();
        }

        @Override
        public void shardEnded(ShardEndedInput input) {
            tell("shard ended " + shardId);
            checkpoint(input.checkpointer());
            AT_WORK.decrementAndGet();
        }

        @Override
        public void shutdownRequested(ShutdownRequestedInput input) {
            tell("shutdown requested " + shardId);
            checkpoint(input.checkpointer());
        }

        private void checkpoint(RecordProcessorCheckpointer checkpointer) {
            try {
                if (PREPARES) {
                    checkpointer.prepareCheckpoint();
                } else {
                    checkpointer.checkpoint();
                }
                checkpointedAt = System.nanoTime();
            } catch (Exception refused) {
                // The lease was taken meanwhile: its new owner gets these records again.
                tell("checkpoint refused " + shardId + ": " + refused);
            }
        }
    }
}
