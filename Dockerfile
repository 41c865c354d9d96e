# The service without torch; mount an engine at /engine.
#
#   docker build --tag fewbits .
#   docker run --publish 8000:8000 --volume "$PWD/news-engine:/engine:ro" fewbits
#
# tests/test_dockerfile.py runs these steps in a virtual environment.

FROM python:3.11-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE requirements.lock ./
COPY src ./src
RUN PIP_CONSTRAINT=requirements.lock pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim
COPY --from=build /source/requirements.lock /wheels/
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --constraint /wheels/requirements.lock "$(ls /wheels/*.whl)[serve]"
RUN useradd --create-home fewbits
USER fewbits
EXPOSE 8000
# One thread per query; more would contend for the cores.
ENV OMP_NUM_THREADS=1
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
# As the first process it receives SIGTERM, and completes running requests.
ENTRYPOINT ["fewbits"]
CMD ["serve", "/engine", "--host", "0.0.0.0", "--port", "8000"]
