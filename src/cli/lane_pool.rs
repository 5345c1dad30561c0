//! The thread of the lanes.

/// The runtime that reads sockets: one thread that does nothing else.
pub struct LanePool {
    pub handle: tokio::runtime::Handle,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl LanePool {
    pub fn start() -> std::io::Result<LanePool> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let run = move || {
            runtime.block_on(async {
                let _ = stopped.await;
            });
        };
        let thread = std::thread::Builder::new().name("lanes".to_owned()).spawn(run)?;
        Ok(LanePool { handle, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for LanePool {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
