//! kube's client, whose requests leave at once.

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

/// Makes the client that kube would make, without its retries, and with `TCP_NODELAY`: without it, the first request of
/// a connection whose TLS session is resumed waits for the API server's delayed acknowledgment, some 40 ms.
///
/// # Errors
/// When the credentials or certificates can't be used.
pub(super) fn client(config: Config) -> kube::Result<Client> {
    if config.proxy_url.is_some() {
        // On the way through a proxy, that is not the delay that matters.
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
