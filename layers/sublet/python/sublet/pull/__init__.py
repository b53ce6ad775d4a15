"""The pull API: your program asks `sublet.Consumer` for records. `sublet.aio` is the same for asyncio."""
