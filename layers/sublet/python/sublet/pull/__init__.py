"""The pull API: `sublet.Consumer`, in a program of your own. `sublet.aio` is the same for asyncio."""
