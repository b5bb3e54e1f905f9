//! Maps paths to calls, and creates the OpenAPI document that describes all calls.
//!
//! The OpenAPI document is generated from the same handlers and types that process the requests. The document can
//! therefore not differ from the behaviour of the endpoint.
//!
//! This module does not depend on connections.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{RefOr, Required};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::problem::{Problem, ProblemKind};
use crate::shared::Shared;
use crate::{calls, dedup};

/// Parts of the OpenAPI document that do not describe calls.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "firstseen",
        description = "Detects whether an event is new or was seen before. docs/reference/http.md describes each call."
    ),
    modifiers(&Tokens),
    security((), ("token" = []))
)]
struct Described;

struct Tokens;

impl utoipa::Modify for Tokens {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme =
            HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some("A token of firstseen, fst_..."));
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(scheme.build()));
    }
}

fn described() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::with_openapi(Described::openapi())
        .routes(routes!(calls::observe))
        .routes(routes!(calls::test))
        .routes(routes!(calls::claim))
        .routes(routes!(calls::confirm))
        .routes(routes!(calls::release))
        .routes(routes!(dedup::dedup))
        .routes(routes!(calls::filters))
        .routes(routes!(calls::filter))
        .routes(routes!(calls::openapi))
}

/// Returns the OpenAPI document.
pub(crate) fn document() -> Bytes {
    let (_, mut document) = described().split_for_parts();
    for (path, item) in &mut document.paths.paths {
        let body = item.post.as_mut().and_then(|call| call.request_body.as_mut());
        // If a header may name the event, the body is optional.
        if let Some(RefOr::T(body)) = body
            && !path.ends_with("/dedup")
        {
            body.required = Some(Required::False);
        }
    }
    Bytes::from(serde_json::to_vec(&document).unwrap_or_default())
}

/// Creates the router of all calls.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    let (router, _) = described().split_for_parts();
    router
        .fallback(no_such_path)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(shared.clone(), counted))
        .with_state(shared)
}

/// Counts the replies.
async fn counted(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    shared.common.counts.reply(response.status());
    response
}

async fn no_such_path(request: Request) -> Response {
    let path: String = request.uri().path().chars().take(200).collect();
    let detail = format!("there is nothing at `{path}`: GET /v1/openapi.json describes all paths");
    Problem::new(ProblemKind::NoSuchPath, detail).into_response()
}

async fn method_not_allowed(method: Method, request: Request) -> Response {
    let path: String = request.uri().path().chars().take(200).collect();
    let detail = format!("{method} is no method of `{path}`: the header Allow names those that it has");
    Problem::new(ProblemKind::MethodNotAllowed, detail).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json() -> serde_json::Value {
        serde_json::from_slice(&document()).unwrap()
    }

    #[test]
    fn the_document_describes_all_calls() {
        let document = json();
        assert!(document["openapi"].as_str().unwrap().starts_with("3.1"), "{}", document["openapi"]);
        let paths: Vec<&str> = document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
        let expected = [
            "/v1/filters",
            "/v1/filters/{name}",
            "/v1/filters/{name}/claim",
            "/v1/filters/{name}/confirm",
            "/v1/filters/{name}/dedup",
            "/v1/filters/{name}/observe",
            "/v1/filters/{name}/release",
            "/v1/filters/{name}/test",
            "/v1/openapi.json",
        ];
        assert_eq!(paths, expected);
    }

    /// Checks that the schemas of bodies have the same limits as the parser, and describe no field that the parser
    /// rejects.
    #[test]
    fn the_schemas_have_the_bounds_of_the_parser() {
        let document = json();
        let body = &document["components"]["schemas"]["ObserveBody"];
        assert_eq!(body["additionalProperties"], false, "{body:#}");
        assert_eq!(body["required"], serde_json::json!(["events"]));
        assert_eq!(body["properties"]["events"]["maxItems"], crate::limits::EVENTS_MAX);
        assert_eq!(body["properties"]["events"]["minItems"], 1);
        assert_eq!(body["properties"]["events"]["items"]["minLength"], 1, "{body:#}");
        assert_eq!(body["properties"]["ttl_ms"]["maximum"], crate::limits::SPAN_MS_MAX);
        assert_eq!(body["properties"]["times_ms"]["items"]["maximum"], crate::limits::TIME_MS_MAX, "{body:#}");
        let held = &document["components"]["schemas"]["HeldBody"]["properties"]["fences"];
        assert_eq!(held["items"]["pattern"], "^[0-9a-fA-F]{48}$", "{held:#}");
    }
}
