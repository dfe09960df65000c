#include "serve/server.hpp"

#include <fmt/format.h>
#include <httplib.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <array>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <regex>

#include "base/error.hpp"
#include "config/json/json_text.hpp"
#include "config/whole_file.hpp"
#include "html/page_template.hpp"
#include "serve/form.hpp"
#include "serve/job.hpp"
#include "serve/program_run.hpp"

namespace rehearse::inline serve {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostBody = 1 << 20, kPagesKept = 8;
/// A slow client holds one of them while it sends: far more than a browser opens.
constexpr std::size_t kThreads = 256;
constexpr time_t kMostSeconds = 5;  ///< in which a client must send its request
constexpr std::chrono::minutes kMostOfSearch{30};

std::string new_token() {
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw MissingError("rehearse: error: no random numbers to be had");
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

/// Takes as long for a wrong text as for another one.
bool same(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return difference == 0;
}

/// A name of this machine's own, with any port: behind `ssh -L` the browser asks for another one
/// than this program listens on. (A name that somebody else's server leads here is none of these.)
bool is_this_machine(const std::string& host) {
  static const std::regex names(R"((127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?)");
  return std::regex_match(host, names);
}

constexpr const char *kPlainText = "text/plain; charset=utf-8",
                     *kGone = "It is not here any more: this server keeps the last few.\n",
                     *kNoLength = "A POST needs its Content-Length, which is 0 without a body.\n",
                     *kNoPage =
                         "No page is here: open the whole address that rehearse serve printed.\n";

/// Pages of runs that were asked for, or scenarios of files, the last ones.
class Texts {
 public:
  std::size_t keep(std::string text) {
    const std::lock_guard lock(mutex_);
    texts_.push_back(std::move(text));
    if (texts_.size() > kPagesKept) {
      texts_.pop_front();
      ++first_;
    }
    return first_ + texts_.size() - 1;
  }
  /// Empty where it is gone, or never was.
  std::string text(std::size_t number) {
    const std::lock_guard lock(mutex_);
    return number < first_ || number >= first_ + texts_.size() ? "" : texts_[number - first_];
  }

 private:
  std::mutex mutex_;
  std::deque<std::string> texts_;
  std::size_t first_ = 0;
};

class PageServer {
 public:
  explicit PageServer(const ServeOptions& options) : options_(options), token_(new_token()) {}

  void listen() {
    server_.set_socket_options([](socket_t socket) {
      const int on = 1;  // not SO_REUSEPORT, by which another program could take part
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    });
    server_.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    server_.set_payload_max_length(kMostBody);
    server_.set_read_timeout(kMostSeconds, 0);
    server_.set_keep_alive_timeout(kMostSeconds);
    server_.set_pre_routing_handler(
        [this](const httplib::Request& request, httplib::Response& response) {
          return admit(request, response);
        });
    server_.set_exception_handler([](const httplib::Request&, httplib::Response& response,
                                     const std::exception_ptr&) { response.status = 500; });
    server_.set_error_handler([](const httplib::Request&, httplib::Response& response) {
      if (!response.body.empty()) return;
      response.set_content(
          response.status == 404
              ? std::string(kNoPage)
              : fmt::format("{}: this is no request of the page's.\n", response.status),
          kPlainText);
    });
    add_routes();
    const int port = bind();
    options_.ready(fmt::format("http://127.0.0.1:{}/{}/", port, token_));
    server_.listen_after_bind();
  }

 private:
  int bind() {
    const int port = options_.port == 0 ? server_.bind_to_any_port("127.0.0.1")
                     : server_.bind_to_port("127.0.0.1", options_.port) ? options_.port
                                                                        : -1;
    if (port > 0) return port;
    throw MissingError(
        fmt::format("rehearse: error: port {} of 127.0.0.1 cannot be had\n"
                    "remedy: leave --port out for any that is free",
                    options_.port));
  }

  /// A page of another site may send requests here, and a name of its own may lead here: both say
  /// so in their headers, and neither knows the token.
  httplib::Server::HandlerResponse admit(const httplib::Request& request,
                                         httplib::Response& response) {
    response.set_header("X-Content-Type-Options", "nosniff");
    response.set_header("Referrer-Policy", "no-referrer");
    response.set_header("Cache-Control", "no-store");
    response.set_header("X-Frame-Options", "DENY");
    response.set_header("Cross-Origin-Resource-Policy", "same-origin");
    response.set_header("Cross-Origin-Opener-Policy", "same-origin");
    const std::string host = request.get_header_value("Host");
    const std::string origin = request.get_header_value("Origin");
    const std::string site = request.get_header_value("Sec-Fetch-Site");
    const bool from_here = (origin.empty() || origin == "http://" + host) &&
                           (site.empty() || site == "same-origin" || site == "none");
    const bool knows = request.path.size() > token_.size() + 1 && request.path[0] == '/' &&
                       same(std::string_view(request.path).substr(1, token_.size()), token_) &&
                       request.path[token_.size() + 1] == '/';
    const bool admitted = is_this_machine(host) && from_here && knows;
    // A body without a length would last until the client is silent for long enough.
    const bool endless = request.method == "POST" && !request.has_header("Content-Length") &&
                         !request.has_header("Transfer-Encoding");
    if (admitted && !endless) return httplib::Server::HandlerResponse::Unhandled;
    response.status = admitted ? 411 : 404;
    response.set_content(admitted ? kNoLength : kNoPage, kPlainText);
    return httplib::Server::HandlerResponse::Handled;
  }

  void add_routes() {
    const std::string root = "/" + token_ + "/";
    server_.Get(root, [](const httplib::Request&, httplib::Response& response) {
      const std::string_view page = serve_template();
      response.set_content(page.data(), page.size(), "text/html; charset=utf-8");
    });
    server_.Get(root + "choices", [](const httplib::Request&, httplib::Response& response) {
      response.set_content(json_text(choices()), "application/json");
    });
    server_.Post(root + "answer", [this](const httplib::Request& request,
                                         httplib::Response& response) {
      respond(request, response, [this](const std::string& scenario) { return answer(scenario); });
    });
    server_.Post(root + "import",
                 [this](const httplib::Request& request, httplib::Response& response) {
                   respond_with(response, [&] { return imported(file_from(request.body)); });
                 });
    add_searches(root);
    server_.Post(root + "page", [this](const httplib::Request& request,
                                       httplib::Response& response) {
      respond(request, response, [this](const std::string& scenario) { return page(scenario); });
    });
    server_.Get(root + R"(page/(\d{1,9}))",
                [this](const httplib::Request& request, httplib::Response& response) {
                  show_page(pages_.text(std::stoul(request.matches[1])), response);
                });
  }

  static void show_page(const std::string& page, httplib::Response& response) {
    response.status = page.empty() ? 404 : 200;
    if (page.empty())
      response.set_content(kGone, kPlainText);
    else
      response.set_content(page, "text/html; charset=utf-8");
  }

  /// Plans and sweeps: begun, looked at, cancelled, and their pages.
  void add_searches(const std::string& root) {
    server_.Post(root + "search",
                 [this](const httplib::Request& request, httplib::Response& response) {
                   respond_with(response, [&] {
                     return Json{{"job", jobs_.start(task_of(search_from(request.body)))}};
                   });
                 });
    server_.Get(root + R"(job/(\d{1,9}))", [this](const httplib::Request& request,
                                                  httplib::Response& response) {
      const Json state = jobs_.state(std::stoul(request.matches[1]));
      response.status = state.is_null() ? 404 : 200;
      response.set_content(json_text_of_any(state.is_null() ? Json{{"error", kGone}} : state),
                           "application/json");
    });
    server_.Post(root + R"(job/(\d{1,9})/cancel)",
                 [this](const httplib::Request& request, httplib::Response& response) {
                   jobs_.cancel(std::stoul(request.matches[1]));
                   response.set_content("{}", "application/json");
                 });
    server_.Get(root + R"(job/(\d{1,9})/page)",
                [this](const httplib::Request& request, httplib::Response& response) {
                  show_page(jobs_.page(std::stoul(request.matches[1])), response);
                });
  }

  /// The scenario that a request asks about: a form's, or an imported file's.
  std::string scenario_asked(const std::string& body) {
    const Json json = tried_json(body);
    if (!json.is_object() || json.size() != 1 || !json.contains("imported"))
      return scenario_of(form_from(body));
    const Json& number = json.at("imported");
    std::string text =
        number.is_number_unsigned() ? scenarios_.text(number.get<std::size_t>()) : "";
    if (text.empty()) throw InputError("imported: this file is not here any more");
    return text;
  }

  template <class Make>
  void respond(const httplib::Request& request, httplib::Response& response, const Make& make) {
    respond_with(response, [&] {
      const std::string scenario = scenario_asked(request.body);
      Json json = make(scenario);
      json["scenario"] = scenario;
      return json;
    });
  }

  template <class Make>
  static void respond_with(httplib::Response& response, const Make& make) {
    Json json;
    try {
      json = make();
    } catch (const InputError& wrong) {
      response.status = 400;
      json = {{"error", wrong.what()}};
    }
    response.set_content(json_text_of_any(json), "application/json");
  }

  ProgramRun simulated(const std::vector<std::string>& words, const std::string& scenario) {
    const std::lock_guard one_at_a_time(simulating_);
    return run_program_with(words, scenario, {.time = options_.time});
  }

  static Json failure(const ProgramRun& run) {
    if (run.timed_out) return {{"error", "The simulation took too long. A smaller one answers."}};
    return {{"error", run.errors}};
  }

  Json answer(const std::string& scenario) {
    const ProgramRun run = simulated({"run", "-", "--quiet", "--format", "json"}, scenario);
    const Json report = tried_json(run.output);
    if (run.timed_out || run.status != 0 || report.is_discarded()) return failure(run);
    return {{"report", report}};
  }

  /// What `import config` makes of a file, and the answer to that.
  Json imported(const OwnFile& file) {
    const OwnFolder folder;
    const std::string name = folder.name() + "/" + file.name;
    write_whole_file(name, file.text);
    ProgramRun run = simulated({"import", "config", name, "--on", file.on}, "");
    for (std::string* text : {&run.output, &run.errors})
      for (std::size_t at; (at = text->find(folder.name() + "/")) != std::string::npos;)
        text->erase(at, folder.name().size() + 1);
    if (run.timed_out || run.status != 0) return failure(run);
    Json json = answer(run.output);
    json["scenario"] = run.output;
    json["lists"] = run.errors;
    json["imported"] = scenarios_.keep(run.output);
    return json;
  }

  Json page(const std::string& scenario) {
    ProgramRun run = simulated(
        {"run", "-", "--quiet", "--html", "/dev/stdout", "--output", "/dev/null"}, scenario);
    if (run.timed_out || run.status != 0) return failure(run);
    return {{"page", pages_.keep(std::move(run.output))}};
  }

  const ServeOptions& options_;
  std::string token_;
  httplib::Server server_;
  std::mutex simulating_;
  Texts pages_, scenarios_;
  Jobs jobs_{kMostOfSearch};
};

}  // namespace

void serve_page(const ServeOptions& options) { PageServer(options).listen(); }

}  // namespace rehearse::inline serve
