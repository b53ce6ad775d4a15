-- Flights by carrier and day. In SQL, because a table that is only declared has no columns yet, which withWatermark needs.
--
-- A day is written once, when the watermark has passed its end. The watermark is six hours before the latest flight that was
-- read, in whichever shard. So a shard without records does not hold it up. A flight that comes more than six hours after a
-- later one of another shard may be too late: it is in `raw` and not in `daily`. So the delay has to cover how far one shard
-- may be behind another.
CREATE STREAMING TABLE daily USING parquet AS
SELECT to_date(window.start) AS day, carrier, count(*) AS flights, sum(departure_delay) AS departure_delay
FROM STREAM parsed WATERMARK CAST(scheduled AS TIMESTAMP) AS at DELAY OF INTERVAL 6 HOURS
GROUP BY window(at, '1 day'), carrier;
