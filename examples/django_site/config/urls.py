"""The pages of this site."""

import os

from django.contrib import admin
from django.http import HttpRequest, JsonResponse
from django.urls import path
from shop.models import Order

from anarchon.contrib.django import scheduler


def front(_request: HttpRequest) -> JsonResponse:
    """Tell which process answers, what its scheduler does, and how many orders are open."""
    open_orders = Order.objects.filter(shipped_at=None).count()
    return JsonResponse({"pid": os.getpid(), "state": scheduler.state, "open_orders": open_orders})


urlpatterns = [path("", front), path("admin/", admin.site.urls)]
