//! Metrics of the process, read from `/proc` when the page is made. On other systems there are none.

use std::{fmt, fs};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};

/// The unit of the times in `/proc`: `USER_HZ`, which is 100 on every architecture that is built.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Debug)]
pub(super) struct ProcessCollector;

/// The values in the files of `/proc`, as far as they could be read.
#[derive(Debug, Default, PartialEq)]
struct Process {
    cpu_seconds: Option<f64>,
    /// As seconds since 1970.
    start: Option<f64>,
    resident_bytes: Option<i64>,
    virtual_bytes: Option<i64>,
    open_files: Option<i64>,
    max_files: Option<i64>,
}

impl Process {
    fn read() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self {
            // The folder's own descriptor is open while it is read.
            open_files: fs::read_dir("/proc/self/fd").ok().and_then(|files| i64::try_from(files.count()).ok()),
            ..Self::parse(
                &read("/proc/self/stat"),
                &read("/proc/self/status"),
                &read("/proc/self/limits"),
                &read("/proc/stat"),
            )
        }
    }

    fn parse(stat: &str, status: &str, limits: &str, system: &str) -> Self {
        // The name of the program may contain spaces and parentheses. Field 3 follows it.
        let fields: Vec<&str> =
            stat.rsplit_once(')').map_or_else(Vec::new, |(_, rest)| rest.split_whitespace().collect());
        let ticks = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        let seconds = |ticks: f64| ticks / TICKS_PER_SECOND;
        let kibibytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().strip_suffix(" kB")?.parse::<i64>().ok()?.checked_mul(1_024)
        };
        let booted = system.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<f64>().ok());
        let max_files = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
        Self {
            cpu_seconds: ticks(14).zip(ticks(15)).map(|(user, system)| seconds(user + system)),
            start: booted.zip(ticks(22)).map(|(booted, start)| booted + seconds(start)),
            resident_bytes: kibibytes("VmRSS:"),
            virtual_bytes: kibibytes("VmSize:"),
            open_files: None,
            max_files: max_files.and_then(|line| line.split_whitespace().next()?.parse().ok()),
        }
    }
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let process = Process::read();
        if let Some(seconds) = process.cpu_seconds {
            let own =
                encoder.encode_descriptor("process_cpu_seconds", "Processor time used.", None, MetricType::Counter)?;
            ConstCounter::new(seconds).encode(own)?;
        }
        for (name, help, value) in [
            ("process_resident_memory_bytes", "Resident memory.", process.resident_bytes),
            ("process_virtual_memory_bytes", "Virtual memory.", process.virtual_bytes),
            ("process_open_fds", "Open file descriptors.", process.open_files),
            ("process_max_fds", "The limit of open file descriptors.", process.max_files),
        ] {
            if let Some(value) = value {
                ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
            }
        }
        if let Some(start) = process.start {
            let (name, help) = ("process_start_time_seconds", "When the process started, as seconds since 1970.");
            ConstGauge::new(start).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_files_of_linux() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 4 0 12345 1000000 500 0";
        let status = "Name:\ta\nVmSize:\t   20480 kB\nVmRSS:\t    1024 kB\n";
        let limits = "Limit Soft Limit Hard Limit Units\nMax open files            1024                 524288               files\n";
        let process = Process::parse(stat, status, limits, "cpu 1 2\nbtime 1700000000\n");
        let expected = Process {
            cpu_seconds: Some(3.0),
            start: Some(1_700_000_123.45),
            resident_bytes: Some(1 << 20),
            virtual_bytes: Some(20 << 20),
            open_files: None,
            max_files: Some(1_024),
        };
        assert_eq!(process, expected);
    }

    #[test]
    fn files_of_another_form_have_no_values() {
        for text in ["", "7 (a", "7 (a) S", ")", "btime x\nVmRSS: 1\nMax open files unlimited"] {
            assert_eq!(Process::parse(text, text, text, text), Process::default(), "{text}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn reads_this_process() {
        let process = Process::read();
        let now = jiff::Timestamp::now().as_second() as f64;
        let start = process.start.unwrap();
        assert!(now - 3_600.0 < start && start <= now + 2.0, "started at {start}, now {now}");
        assert!(process.resident_bytes.unwrap() > 1 << 20 && process.open_files.unwrap() > 2);
    }
}
