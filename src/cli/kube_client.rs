//! Builds the client of `orchestr run`: that of kube, with `TCP_NODELAY`.

use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::{
    Client, Config,
    client::{ClientBuilder, ConfigExt},
};
use tower::{BoxError, ServiceBuilder};

/// Builds the client that kube would build, without its retries and with `TCP_NODELAY`. Without `TCP_NODELAY`, the first
/// request of a connection that resumes a TLS session waits about 40 ms for the API server's delayed acknowledgment.
///
/// # Errors
/// If the credentials or certificates cannot be used.
pub(super) fn client(config: Config) -> kube::Result<Client> {
    if config.proxy_url.is_some() {
        // A proxy adds more delay than this would save.
        return Client::try_from(config);
    }
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(connector)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(legacy::Client::builder(TokioExecutor::new()).build(connector));
    Ok(ClientBuilder::new(service, config.default_namespace).build())
}
